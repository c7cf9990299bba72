import Logging
import Synchronization
import UnixSignals

extension Database {
    /// Opens the database that the settings name, and checks the roles that are needed.
    ///
    /// - Returns: Nil if a signal came meanwhile; what had been started is stopped again.
    static func openUnlessStopped(
        _ settings: Settings, checking roles: some Sequence<Role>, logger: Logger
    ) async throws -> Database? {
        // With somebody else's database there is nothing to stop yet, and a signal may end the process as usual.
        let trapped: [UnixSignal] = settings.databaseURL == nil ? [.sigterm, .sigint] : []
        let early = EarlySignal()
        let watcher = Task { [signals = await UnixSignalsSequence(trapping: trapped)] in
            for await _ in signals { early.hasCome.store(true, ordering: .relaxed) }
        }
        defer { watcher.cancel() }
        let database = try await open(settings, logger: logger)
        try await database.stoppingOnError { try await database.check(roles) }
        guard !early.hasCome.load(ordering: .relaxed) else {
            await database.embedded?.stop()
            logger.info("stopped")
            return nil
        }
        return database
    }
}

/// A signal that came before there were services to stop.
private final class EarlySignal: Sendable {
    let hasCome = Atomic(false)
}
