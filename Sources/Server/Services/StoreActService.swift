import AppStore
import EventLog
import HTTPServer
import PlayStore
import StoreClient
import Subscriptions

/// Asks the stores of the configured apps for what people want in the console.
package struct StoreActService: StoreActs {
    private let writer: StoreWriter
    private let orders: OrderLookup?
    private let apps: [App]
    private let googleApps: [GoogleApp]
    package let makesChanges: Bool

    /// - Parameter makesChanges: Whether the stores are asked for changes.
    package init(
        writer: StoreWriter, orders: OrderLookup?, apps: [App], googleApps: [GoogleApp], makesChanges: Bool = true
    ) {
        self.writer = writer
        self.orders = orders
        self.apps = apps
        self.googleApps = googleApps
        self.makesChanges = makesChanges
    }

    private func app(_ name: String) -> App? { apps.first { $0.bundleId == name && $0.serverAPIKey != nil } }

    private func googleApp(_ name: String) -> GoogleApp? {
        googleApps.first { $0.packageName == name && $0.credentials != nil }
    }

    package func stores(of app: String) -> Set<RefundRequest.Store> {
        guard makesChanges else { return [] }
        return Set([self.app(app).map { _ in .apple }, googleApp(app).map { _ in .google }].compactMap(\.self))
    }

    package func apps(for number: OrderNumber) -> [String] { orders?.apps(for: number) ?? [] }

    package func find(_ number: OrderNumber, of app: String) async throws -> OrderOutcome {
        try await orders?.find(number, of: app) ?? .unavailable
    }

    package func etag(of purchaseToken: String, app: String) async -> String? {
        guard let app = googleApp(app), let token = PurchaseToken(purchaseToken) else { return nil }
        return await writer.etag(of: token, of: app)
    }

    package func outcome(
        of key: StoreWrite.IdempotencyKey, in stream: StreamKey
    ) async throws -> StoreActOutcome? {
        switch try await writer.known(key, in: stream) {
        case nil: nil
        case .unfinished(let first): try await ask(first.write, in: stream)
        case let known?: Self.outcome(of: known)
        }
    }

    private static func outcome(of known: WriteLog.Repeat) -> StoreActOutcome {
        switch known {
        case .answered(let placed): .asked(placed.write, isRecorded: true)
        case .underWay(let placed), .unfinished(let placed): .underWay(placed.write)
        case .keyUsed: .keyUsed
        }
    }

    package func ask(_ request: StoreWrite, in stream: StreamKey) async throws -> StoreActOutcome {
        guard makesChanges else { return .impossible }
        let outcome: StoreWriter.Outcome
        switch request.change {
        case .extend, .extendAll, .setAccountToken:
            guard let app = app(stream.app), ReceiptHost(environment: stream.environment) != nil else {
                return .impossible
            }
            outcome = try await writer.write(request, isIdentifierChosen: false, of: app, in: stream)
        case .answerRefund: return .impossible
        case .cancel, .revoke, .defer, .refund:
            guard let app = googleApp(stream.app) else { return .impossible }
            outcome = try await writer.write(request, of: app, in: stream)
        }
        switch outcome {
        case .asked(let write, let recorded, _): return .asked(write, isRecorded: (try? recorded.get()) != nil)
        case .open(let placed), .identifierUsed(let placed): return .open(placed.write)
        case .known(let known): return Self.outcome(of: known)
        }
    }
}
