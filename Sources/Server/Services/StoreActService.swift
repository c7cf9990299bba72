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

    package init(writer: StoreWriter, orders: OrderLookup?, apps: [App], googleApps: [GoogleApp]) {
        self.writer = writer
        self.orders = orders
        self.apps = apps
        self.googleApps = googleApps
    }

    private func app(_ name: String) -> App? { apps.first { $0.bundleId == name && $0.serverAPIKey != nil } }

    private func googleApp(_ name: String) -> GoogleApp? {
        googleApps.first { $0.packageName == name && $0.credentials != nil }
    }

    package func stores(of app: String) -> Set<RefundRequest.Store> {
        Set([self.app(app).map { _ in .apple }, googleApp(app).map { _ in .google }].compactMap(\.self))
    }

    package func apps(for number: OrderNumber) -> [String] { orders?.apps(for: number) ?? [] }

    package func find(_ number: OrderNumber, of app: String) async throws -> OrderOutcome {
        try await orders?.find(number, of: app) ?? .unavailable
    }

    package func etag(of purchaseToken: String, app: String) async -> String? {
        guard let app = googleApp(app), let token = PurchaseToken(purchaseToken) else { return nil }
        return await writer.etag(of: token, of: app)
    }

    package func note(_ request: StoreWrite, in stream: StreamKey) async throws {
        try await writer.note(request, in: stream)
    }

    package func ask(_ request: StoreWrite, in stream: StreamKey) async throws -> StoreActOutcome {
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
        }
    }
}
