import AppStore
import Encoding
import Subscriptions

/// Asks the App Store Server API about a purchase of which a backend knows only an id.
package struct TransactionLookup: Sendable {
    private let client: ServerAPIClient
    private let apps: [String: App]
    private let clock: StoreClock

    /// - Parameter apps: Those without a key are left out.
    package init(client: ServerAPIClient, apps: [App], clock: StoreClock) {
        self.client = client
        self.apps = Dictionary(apps.filter { $0.serverAPIKey != nil }.map { ($0.bundleId, $0) }) { $1 }
        self.clock = clock
    }

    package enum Failure: Error, Sendable, Hashable {
        /// The app has no key.
        case noKey
        /// No host knows the id. Apple may know a purchase of the last minutes later.
        case notFound
        /// The id is none of Apple's.
        case refused
        case keyRejected
        /// No usable answer in time.
        case unavailable
    }

    /// Finds a purchase, in production or else in the sandbox, with the renewal info of its subscription.
    ///
    /// Waits for Apple at most ``Limits/handInWaitMax``.
    ///
    /// - Parameter id: A `transactionId` or an `originalTransactionId`.
    /// - Returns: Not verified; not empty.
    package func find(_ id: String, of app: String) async throws(Failure) -> [SignedStatement] {
        guard let app = apps[app] else { throw .noKey }
        let found = try? await clock.within(Limits.handInWaitMax) { await ask(id, app) }
        return try (found ?? .failure(.unavailable)).get()
    }

    private func ask(_ id: String, _ app: App) async -> Result<[SignedStatement], Failure> {
        let (host, outcome) = await client.find(TransactionInfoRequest(id: id), app: app, priority: .handIn)
        switch Self.answer(outcome) {
        case .failure(let failure): return .failure(failure)
        case .success(let transaction):
            let lines = await client.ask(StatusesRequest(id: id), app: app, host: host, priority: .handIn)
            switch Self.answer(lines) {
            case .success(let lines): return Self.statements(transaction, lines, of: host)
            // A one-time purchase may be unknown there.
            case .failure(.notFound), .failure(.refused): return Self.statements(transaction, [], of: host)
            case .failure(let failure): return .failure(failure)
            }
        }
    }

    /// The transaction, and the current state of its subscription.
    private static func statements(
        _ transaction: [UInt8], _ lines: [StatusesRequest.Line], of host: ReceiptHost
    ) -> Result<[SignedStatement], Failure> {
        do throws(StatementRefusal) {
            let first = try SignedStatement(transaction: transaction[...], source: .appleAPI)
            let subscriptions = first.event().subscriptions
            var statements = [first]
            for line in lines {
                let state = try SignedStatement(
                    transaction: line.signedTransaction[...], renewal: line.signedRenewal?[...], source: .appleAPI)
                // Other subscriptions of the account were not asked about.
                if !state.event().subscriptions.isDisjoint(with: subscriptions) { statements.append(state) }
            }
            guard statements.allSatisfy({ $0.event().environment == host.environment }) else {
                return .failure(.unavailable)
            }
            return .success(statements)
        } catch {
            return .failure(.unavailable)
        }
    }

    private static func answer<Answer>(_ outcome: ServerAPIOutcome<Answer>) -> Result<Answer, Failure> {
        switch AccountReader.answer(outcome) {
        case .success(let answer): .success(answer)
        case .failure(.notFound): .failure(.notFound)
        case .failure(.refused): .failure(.refused)
        case .failure(.keyRejected): .failure(.keyRejected)
        case .failure(.unreadable), .failure(.unavailable): .failure(.unavailable)
        }
    }
}
