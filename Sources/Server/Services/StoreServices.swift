import AppStore
import Encoding
import Logging
import PlayStore
import ServiceLifecycle
import StoreClient

/// What asks the stores. All questions of a process share it, and with it the budgets of the apps.
package struct StoreServices {
    package let client: ReceiptClient
    package let api: ServerAPIClient
    package let google: GoogleClient
    package let clock: StoreClock
    package let service: StoreTransportService

    /// - Parameter now: Our clock.
    package init(
        addresses: ReceiptAddresses, apiAddresses: ServerAPIAddresses,
        apiBudget: @escaping @Sendable (ServerAPIEndpoint, ReceiptHost) -> CallBudget = { $0.budget($1) },
        googleAddresses: GoogleAddresses = .google,
        googleAsking: (clock: StoreClock, budget: @Sendable (PlayRequest.Quota) -> CallBudget)? = nil,
        now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        let transport = HTTPStoreTransport()
        clock = StoreClock(date: now)
        client = ReceiptClient(transport: transport, addresses: addresses, clock: clock, logger: logger)
        api = ServerAPIClient(
            transport: transport, addresses: apiAddresses, clock: clock, budget: apiBudget, logger: logger)
        if let googleAsking {
            google = GoogleClient(
                transport: transport, addresses: googleAddresses, clock: googleAsking.clock,
                budget: googleAsking.budget, logger: logger)
        } else {
            google = GoogleClient(transport: transport, addresses: googleAddresses, clock: clock, logger: logger)
        }
        service = StoreTransportService(transport: transport)
    }
}

/// Closes the connections to the stores. Stops after the services that ask.
package struct StoreTransportService: Service {
    package let transport: HTTPStoreTransport

    package func run() async throws {
        try? await gracefulShutdown()
        // A separate task, which a cancellation of this one does not interrupt.
        await Task { [transport] in await transport.shutDown() }.value
    }
}
