import EventLog
import Foundation
import HTTPTypes
import Hummingbird
import Subscriptions

/// The ways to hand purchases in. Each is nil if this process cannot append to the log.
package struct HandInSources: Sendable {
    /// `POST /receipts`: receipts, about which the App Store is asked.
    package var receipts: (any HandInSource)?
    /// The receipts that were handed in; nil without that way.
    package var receiptLog: HandInLog?
    /// `POST /transactions`: what StoreKit 2 gives an app.
    package var transactions: (any HandInSource)?
    /// `POST /purchases`: purchases of Google Play.
    package var purchases: (any HandInSource)?
    /// `POST /imports`: purchases of many customers.
    package var imports: (any PurchaseImport)?
    /// Access that is given by hand.
    package var grants: GrantService?

    package init() {}
}

/// Hands purchases in, by whatever proves them; `GET /receipts/{receiptId}` returns what came of a receipt.
struct HandInRoutes: Sendable {
    let sources: HandInSources
    let purchases: PurchaseReader
    let log: LogReader
    private let receipts: Way
    private let transactions: Way
    private let googlePurchases: Way
    private let bodies = BodyReader()
    private let moves = MoveRate()

    init(sources: HandInSources, purchases: PurchaseReader, log: LogReader) {
        self.sources = sources
        self.purchases = purchases
        self.log = log
        receipts = Way(
            source: sources.receipts, name: "receipts", bodyBytesMax: Limits.receiptBodyBytesMax,
            largeField: "receipt")
        transactions = Way(
            source: sources.transactions, name: "transactions", bodyBytesMax: Limits.transactionsBodyBytesMax)
        googlePurchases = Way(
            source: sources.purchases, name: "purchases", configuration: " with credentials for Google Play",
            bodyBytesMax: Limits.purchaseBodyBytesMax)
    }

    /// One of the ways.
    private struct Way: Sendable {
        let source: (any HandInSource)?
        /// What is handed in.
        let name: String
        /// What apps must be configured with.
        var configuration = ""
        let bodyBytesMax: Int
        /// The only member of the body that can be large; nil if there are several.
        var largeField: String?
        let rate = HandInRate()
        let localStreams = LocalStreams()

        func enabled() throws(Problem) -> any HandInSource {
            guard let source else {
                throw Problem(
                    .notImplemented,
                    "\(name) disabled: database user lacks role subledger_receiver, or database is read-only")
            }
            return source
        }
    }

    func add(to routes: PrivateRoutes) {
        addOwn(to: routes.apps.submit)
        routes.submit.post("/receipts") { request, _ in try await handIn(request, receipts) }
        routes.submit.get("/receipts/:receiptId") { request, context in
            _ = try receipts.enabled()
            return try await find(request, context)
        }
    }

    /// Adds the routes that are for apps, too.
    func addOwn(to routes: PrivateRoutes.Group) {
        routes.post("/transactions") { request, _ in try await handIn(request, transactions) }
        routes.post("/purchases") { request, _ in try await handIn(request, googlePurchases) }
    }

    private func handIn(_ request: Request, _ way: Way) async throws -> Response {
        let query = RequestQuery(request)
        let (app, granted) = (try query.app(), try query.granting())
        try AppUser.current?.check(app: app)
        let source = try way.enabled()
        guard source.accepts(app) else {
            throw Problem(.notFound, "this app is not configured\(way.configuration)", field: "app")
        }
        do {
            // The whole answer is made here, so that the bodies of waiting requests count as held.
            return try await bodies.withJSON(of: request, bytesMax: way.bodyBytesMax) { json in
                let customerId = try AppUser.customerId(of: json)
                try way.rate.admit(customerId, app, json)
                let result = try await source.handIn(
                    HandInRequest(
                        app: app, customerId: customerId, body: json, isOfApp: AppUser.current != nil,
                        admitMove: { ids in try await admitMove(of: ids, to: customerId, app) }
                    ) { stream, sizes in
                        try granted.check(stream.environment)
                        try way.localStreams.admit(stream, sizes)
                    })
                return try await response(to: result, app: app, customerId: customerId, granted) { stream, position in
                    way.localStreams.note(stream, position)
                }
            }
        } catch BodyReader.Failure.tooLarge {
            throw Problem(
                .contentTooLarge, "the body is larger than \(way.bodyBytesMax) bytes", field: way.largeField)
        } catch let refusal as HandInRefusal {
            throw Problem(refusal)
        }
    }

    private func admitMove(of ids: [String], to customerId: String?, _ app: String) async throws {
        guard let customerId, !ids.isEmpty else { return }
        let owners = try await purchases.subscriptions.otherOwners(
            of: ids, than: customerId, app: app, at: purchases.now())
        for owner in owners { try moves.admit(owner.purchases, of: owner.customerId, to: customerId, app) }
    }

    private func find(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let granted = try RequestQuery(request).granting()
        let id = try PathParameter.text("receiptId", context).lowercased()
        guard UUID(uuidString: id) != nil, let receipt = try await sources.receiptLog?.handIn(id: id) else {
            throw Problem(.notFound, "no receipt with this id")
        }
        switch HandInResult(receipt, lastPosition: receipt.findings.position) {
        case .answered(let answer): return try await content(of: answer, receipt.customerId, granted, waits: false)
        case .receipt(let receipt) where receipt.state == .refused:
            return JSONResponse.json(.ok) { HandInContent(receipt: receipt).write(to: &$0) }
        case .receipt, .pending: return Self.pending(receipt, .ok)
        }
    }

    // MARK: - Responses

    private func response(
        to result: HandInResult, app: String, customerId: String?, _ granted: GrantedEnvironment,
        noting note: (StreamKey, Int64) -> Void
    ) async throws -> Response {
        switch result {
        case .answered(let answer):
            if let position = answer.lastPosition { note(answer.stream, position) }
            return try await content(of: answer, customerId, granted, waits: true)
        case .pending:
            return JSONResponse.json(.accepted) { writer in
                writer.member("app", app)
                writer.member("customerId", customerId)
                writer.member("state", "pending")
            }
        case .receipt(let receipt) where receipt.state == .refused:
            throw Problem(
                .unprocessableContent, receipt.refusal ?? "the receipt is refused", field: "receipt",
                receipt: Problem.RefusedReceipt(receipt))
        case .receipt(let receipt) where receipt.findings.problem == HandIn.secretRejected:
            // The operator finds the alarm in the log. The receipt is asked about again until the secret is corrected.
            throw Problem(
                .serviceUnavailable, "receipts of this app cannot be checked: see the server log",
                headers: [.location: receipt.location],
                receipt: Problem.RefusedReceipt(id: receipt.id, appStoreStatus: nil))
        case .receipt(let receipt): return Self.pending(receipt, .accepted)
        }
    }

    private static func pending(_ receipt: HandIn, _ status: HTTPResponse.Status) -> Response {
        var response = JSONResponse.json(status) { writer in
            writer.member("id", receipt.id)
            writer.member("app", receipt.app)
            writer.member("state", receipt.state.rawValue)
        }
        response.headers[.location] = receipt.location
        return response
    }

    /// - Parameter waits: Whether to wait, for a limited time, until what was appended is projected.
    private func content(
        of answer: HandInAnswer, _ customerId: String?, _ granted: GrantedEnvironment, waits: Bool
    ) async throws -> Response {
        try granted.check(answer.stream.environment, receipt: answer.receipt.map(Problem.RefusedReceipt.init))
        let isProjected = try await log.isProjected(answer, wait: waits ? Limits.projectionWaitMax : .zero)
        let content = HandInContent(
            answer, customerId: customerId,
            try await purchases.content(of: answer, customerId: customerId, isProjected: isProjected))
        return JSONResponse.json(.ok) { content.write(to: &$0) }
    }
}

extension HandIn {
    fileprivate var location: String { "/receipts/\(id)" }
}

extension Problem.RefusedReceipt {
    fileprivate init(_ receipt: HandIn) {
        self.init(id: receipt.id, appStoreStatus: receipt.findings.status)
    }
}

extension Problem {
    fileprivate init(_ refusal: HandInRefusal) {
        let status: HTTPResponse.Status =
            switch refusal.kind {
            case .malformed: .badRequest
            case .tooLong: .contentTooLarge
            case .forbidden: .forbidden
            case .notFound: .notFound
            case .refused: .unprocessableContent
            case .unavailable: .serviceUnavailable
            }
        self.init(status, refusal.description, field: refusal.field)
    }
}

extension LocalStreams {
    /// - Throws: ``Problem``.
    fileprivate func admit(_ stream: StreamKey, _ sizes: [Int]) throws(Problem) {
        for bytes in sizes {
            do throws(Excess) {
                try admit(stream, bodyBytes: bytes)
            } catch {
                throw Problem(error.status, error.problem)
            }
        }
    }
}
