import CLibpq
import Foundation

extension ServerAccount {
    /// Prepares a data folder for the account. Requires root.
    package func prepare(dataFolder: String) throws(EmbeddedServerError) {
        _ = try ServerFolder(path: dataFolder, account: self)
    }

    /// Runs this command again with the same arguments, in this process and under this account. It can gain no
    /// privileges after that. It keeps one, if root has it: to listen on ports below 1024.
    ///
    /// Call it before the command opens or starts anything, because the command starts from the beginning.
    ///
    /// - Throws: ``EmbeddedServerError`` on failure; the process is then unchanged.
    package func takeOver(environment: [String: String]) throws(EmbeddedServerError) -> Never {
        guard let executable = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            throw EmbeddedServerError("cannot find our own executable: is /proc mounted?")
        }
        var program = executable
        if obstacle(on: executable) != nil {
            // The account may execute the file but cannot reach its path, for example in root's home.
            let file = open(executable, O_RDONLY)
            guard file >= 0 else { throw EmbeddedServerError("cannot open \(executable): \(errnoText())") }
            program = "/proc/self/fd/\(file)"
        }
        for (name, value) in environment { setenv(name, value, 1) }
        setenv("HOME", home, 1)
        setenv("USER", name, 1)
        setenv("LOGNAME", name, 1)
        // Threads of the concurrency runtime block signals, and the new program would inherit this mask.
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

    /// In a container, root may lack either capability, and requesting it would fail.
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
