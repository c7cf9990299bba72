#if canImport(Glibc)
    import Glibc
#endif

extension EmbeddedServer {
    /// Gives one of the server's processes the processor only while hardly any other wants it, until it ends.
    ///
    /// PostgreSQL makes a session of each of its processes. Where Linux shares the processor out between sessions first
    /// (`sched_autogroup_enabled`), a process's own class and priority count for nothing beside other sessions; those of
    /// the session do. Elsewhere it is the other way round, so both are set.
    ///
    /// - Returns: False if it is to be tried again: Linux lets who is not root do so ten times a second.
    package nonisolated func runWhenIdle(_ pid: Int32) -> Bool {
        #if os(Linux)
            guard ClusterProcesses(folder: folder).isServer(pid) else { return true }
            var parameters = sched_param()
            sched_setscheduler(pid, Self.idleClass, &parameters)
            let file = open("/proc/\(pid)/autogroup", O_WRONLY | O_CLOEXEC)
            guard file >= 0 else { return true }
            defer { close(file) }
            return write(file, Self.lowestPriority, Self.lowestPriority.utf8.count) > 0 || errno != EAGAIN
        #else
            return true
        #endif
    }

    /// `SCHED_IDLE` of `sched.h`, which Swift's module of the C library leaves out.
    private static let idleClass: Int32 = 5
    private static let lowestPriority = "19"
}
