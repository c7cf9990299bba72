import AppStore
import EventLog
import Logging
import StoreClient

/// What a command has that asks the stores of all configured apps, and appends what they answer.
struct AskingServices {
    let apps: [App]
    let googleApps: [GoogleApp]
    let store: StoreServices
    let verifier: NotificationVerifier
    let appender: Appender
    let database: Database
    let logger: Logger

    /// Runs the body with services of its own, beside a server that may be running.
    static func with<Value: Sendable>(
        _ settings: Settings, _ body: (AskingServices) async throws -> Value
    ) async throws -> Value {
        let logger = try settings.logger()
        let (apps, googleApps) = (try settings.apps(), try settings.googleApps())
        let verifier = NotificationVerifier(
            apps: Apps(apps), signatures: SignatureVerifier(roots: try settings.roots()))
        let store = StoreServices(
            addresses: try settings.receiptAddresses(), apiAddresses: try settings.serverAPIAddresses(),
            googleAddresses: try settings.googleAddresses(), now: SystemClock.now, logger: logger)
        let result: Result<Value, any Error>
        do {
            result = .success(
                try await Database.withExisting(settings, logger: logger) { database in
                    try await database.check([.receiver, .reader])
                    return try await database.withAppender(logger: logger) { appender in
                        try await body(
                            AskingServices(
                                apps: apps, googleApps: googleApps, store: store, verifier: verifier,
                                appender: appender, database: database, logger: logger))
                    }
                })
        } catch {
            result = .failure(error)
        }
        // Also after an error: the client must not be released with open connections.
        await store.service.transport.shutDown()
        return try result.get()
    }
}
