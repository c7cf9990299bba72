import CLibpq
import Foundation

extension ServerAccount {
    /// Makes a data folder ready for the account. Only root can; the account itself then works in it.
    package func prepare(dataFolder: String) throws(EmbeddedServerError) {
        _ = try ServerFolder(path: dataFolder, account: self)
    }

    /// Runs this very command again, in this process and under this account, with what it was given. It can gain no
    /// privilege after that; the one that it keeps, if root has it here, is to listen on ports below 1024.
    ///
    /// Nothing may be open or started yet that the command needs: it begins again.
    ///
    /// - Throws: ``EmbeddedServerError`` when it could not; this process then is what it was.
    package func takeOver(environment: [String: String]) throws(EmbeddedServerError) -> Never {
        guard let executable = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw EmbeddedServerError("cannot find our own executable: is /proc mounted?")
        }
        var program = executable
        if obstacle(on: executable) != nil {
            // The account may run the file and cannot reach its name, as in root's home.
            let file = open(executable, O_RDONLY)
            guard file >= 0 else { throw EmbeddedServerError("cannot open \(executable): \(errnoText())") }
            program = "/proc/self/fd/\(file)"
        }
        for (name, value) in environment { setenv(name, value, 1) }
        setenv("HOME", home, 1)
        setenv("USER", name, 1)
        setenv("LOGNAME", name, 1)
        // A thread of the concurrency runtime blocks signals, and the new program would inherit that.
        var signals = sigset_t()
        sigemptyset(&signals)
        pthread_sigmask(SIG_SETMASK, &signals, nil)
        let command = command([program] + CommandLine.arguments.dropFirst(), privileges: Self.privileges)
        var arguments = command.map { strdup($0) } + [nil]
        execv(setpriv, &arguments)
        let problem = errnoText()
        for text in arguments { free(text) }
        throw EmbeddedServerError("cannot run \(setpriv): \(problem)")
    }

    /// In a container root may lack either capability, and asking for it would fail.
    private static var privileges: [String] {
        let held = effectiveCapabilities
        let kept = held & (1 << 10) != 0 ? "-all,+net_bind_service" : "-all"
        var privileges = ["--no-new-privs", "--inh-caps=\(kept)", "--ambient-caps=\(kept)"]
        if held & (1 << 8) != 0 { privileges.append("--bounding-set=\(kept)") }
        return privileges
    }

    /// Bit 8 is `CAP_SETPCAP`, bit 10 `CAP_NET_BIND_SERVICE`.
    private static var effectiveCapabilities: UInt64 {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("CapEff:") }
        return line.flatMap { UInt64($0.dropFirst(7).trimmingCharacters(in: .whitespaces), radix: 16) } ?? 0
    }
}
