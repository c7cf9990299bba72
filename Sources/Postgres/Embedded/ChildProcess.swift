import CLibpq
import Foundation

/// A child process, whose exit status must be collected.
struct ChildProcess: Sendable {
    let pid: Int32

    /// Starts a command in its own session, so that a terminal's Ctrl-C does not reach it. It inherits no descriptors,
    /// runs in the root folder, and its output is appended to a file.
    ///
    /// - Throws: ``EmbeddedServerError`` if it cannot be started.
    static func start(_ command: [String], output: String) throws(EmbeddedServerError) -> ChildProcess {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        _ = posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        _ = posix_spawn_file_actions_addchdir_np(&actions, "/")

        // The child must not inherit ignored or blocked signals.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        let flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | SUBLEDGER_SPAWN_SETSID
        posix_spawnattr_setflags(&attributes, Int16(flags))

        var arguments = command.map { strdup($0) } + [nil]
        var environment = environment().map { strdup($0) } + [nil]
        defer {
            for text in arguments + environment { free(text) }
        }
        // The child must not inherit the right to listen on low ports. This changes the current thread only.
        subledger_clear_ambient_capabilities()
        var pid: pid_t = 0
        let code = posix_spawn(&pid, command[0], &actions, &attributes, &arguments, &environment)
        guard code == 0 else {
            throw EmbeddedServerError("cannot run \(command[0]): \(String(cString: strerror(code)))")
        }
        return ChildProcess(pid: pid)
    }

    /// Collects the exit status if the process has ended.
    ///
    /// - Returns: Nil while it runs; then its exit code, or 128 plus the number of the signal that ended it, as in a
    ///   shell.
    func collect() -> Int32? {
        var status: Int32 = 0
        let result = waitpid(pid, &status, WNOHANG)
        if result == 0 { return nil }
        // If the status was collected elsewhere, the exit code is unknown.
        guard result == pid else { return errno == ECHILD ? 0 : nil }
        let signal = status & 0x7f
        return signal == 0 ? (status >> 8) & 0xff : 128 + signal
    }

    /// Waits until the process has ended.
    func wait() async -> Int32 {
        while true {
            if let code = collect() { return code }
            await pause(milliseconds: 5)
        }
    }

    func signal(_ signal: Int32) {
        kill(pid, signal)
    }

    /// The variables that PostgreSQL needs. Others may contain secrets, or settings that change PostgreSQL's behaviour.
    private static func environment() -> [String] {
        let kept = ProcessInfo.processInfo.environment.filter {
            ["PATH", "TMPDIR", "LD_LIBRARY_PATH"].contains($0.key)
        }
        return kept.map { "\($0.key)=\($0.value)" } + ["LC_ALL=C"]
    }
}
