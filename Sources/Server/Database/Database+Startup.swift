import Logging
import Synchronization
import UnixSignals

extension Database {
    /// Opens the configured database and checks the required roles.
    ///
    /// - Returns: Nil if a signal arrived meanwhile; then the private PostgreSQL is stopped again.
    package static func openInterruptibly(
        _ settings: Settings, checking roles: some Sequence<Role>, logger: Logger
    ) async throws -> Database? {
        // With a database URL there is nothing to stop yet, and a signal may end the process as usual.
        let trapped: [UnixSignal] = try settings.databaseURL() == nil ? [.sigterm, .sigint] : []
        let signal = StartupSignal()
        let watcher = Task { [signals = await UnixSignalsSequence(trapping: trapped)] in
            for await _ in signals { signal.hasArrived.store(true, ordering: .relaxed) }
        }
        defer { watcher.cancel() }
        let database = try await open(settings, logger: logger)
        try await database.stoppingOnError { try await database.check(roles) }
        guard !signal.hasArrived.load(ordering: .relaxed) else {
            await database.embedded?.stop()
            logger.info("stopped")
            return nil
        }
        return database
    }
}

/// Records whether a signal arrived before the services started.
private final class StartupSignal: Sendable {
    let hasArrived = Atomic(false)
}
