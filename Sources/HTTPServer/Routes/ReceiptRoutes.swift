import AppStore
import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Readers
import StoreClient
import Subscriptions

/// `POST /receipts` hands a receipt in; `GET /receipts/{receiptId}` returns what came of it.
struct ReceiptRoutes: Sendable {
    let receipts: HandInService?
    let purchases: PurchaseReader
    private let bodies = BodyReader()
    private let rate = HandInRate()

    init(receipts: HandInService?, purchases: PurchaseReader) {
        self.receipts = receipts
        self.purchases = purchases
    }

    func add(to routes: PrivateRoutes) {
        routes.submit.post("/receipts") { request, _ in try await handIn(request) }
        routes.submit.get("/receipts/:receiptId") { request, context in try await find(request, context) }
    }

    // MARK: - Routes

    private func handIn(_ request: Request) async throws -> Response {
        let query = RequestQuery(request)
        let (app, granted) = (try query.app(), try query.granting())
        let receipts = try enabled()
        guard receipts.accepts(app) else { throw Problem(.notFound, "this app is not configured", field: "app") }
        do {
            // The whole answer is made here, so that the bodies of waiting requests count as held.
            return try await bodies.withJSON(of: request, bytesMax: Limits.receiptBodyBytesMax) { json in
                let receipt = try Self.receipt(json)
                let customerId = try json.customerId()
                try rate.admit(customerId, app)
                let verdict = try await receipts.handIn(receipt, app: app, customerId: customerId)
                return try await answer(verdict, granted, receipts)
            }
        } catch BodyReader.Failure.tooLarge {
            throw Problem(
                .contentTooLarge, "the body is larger than \(Limits.receiptBodyBytesMax) bytes", field: "receipt")
        }
    }

    private func find(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let receipts = try enabled()
        let granted = try RequestQuery(request).granting()
        let id = try PathParameter.text("receiptId", context).lowercased()
        guard Self.isUUID(id), let handIn = try await receipts.find(id) else {
            throw Problem(.notFound, "no receipt with this id")
        }
        guard handIn.state != .pending else { return Self.pending(handIn, .ok) }
        try Self.check(handIn, granted)
        let content = try await content(
            of: HandInService.Verdict(handIn: handIn, position: handIn.findings.position), receipts, waits: false)
        return JSONResponse.json(.ok) { content.write(to: &$0) }
    }

    private func enabled() throws(Problem) -> HandInService {
        guard let receipts else {
            throw Problem(
                .notImplemented,
                "receipts disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        return receipts
    }

    // MARK: - Requests

    private static func receipt(_ json: JSONValue) throws -> Receipt {
        guard let text = json["receipt"]?.string else {
            throw RequestQuery.Malformed(problem: "receipt must be a string", field: "receipt")
        }
        do throws(ReceiptProblem) {
            return try Receipt(base64: text)
        } catch {
            throw Problem(error == .tooLong ? .contentTooLarge : .badRequest, error.description, field: "receipt")
        }
    }

    private static func isUUID(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        let isHexadecimal = parts.allSatisfy { part in
            part.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || (0x61...0x66).contains($0) }
        }
        return isHexadecimal && parts.map(\.count) == [8, 4, 4, 4, 12]
    }

    // MARK: - Responses

    private static func check(_ handIn: HandIn, _ granted: GrantedEnvironment) throws(Problem) {
        guard handIn.state == .answered, let environment = handIn.findings.environment else { return }
        try granted.check(
            environment, receipt: Problem.RefusedReceipt(id: handIn.id, appStoreStatus: handIn.findings.status))
    }

    private func answer(
        _ verdict: HandInService.Verdict, _ granted: GrantedEnvironment, _ receipts: HandInService
    ) async throws -> Response {
        let handIn = verdict.handIn
        switch handIn.state {
        case .answered:
            try Self.check(handIn, granted)
            let content = try await content(of: verdict, receipts, waits: true)
            return JSONResponse.json(.ok) { content.write(to: &$0) }
        case .refused:
            throw Problem(
                .unprocessableContent, handIn.refusal ?? "the receipt is refused", field: "receipt",
                receipt: Problem.RefusedReceipt(id: handIn.id, appStoreStatus: handIn.findings.status))
        case .pending where handIn.findings.problem == HandIn.secretRejected:
            // The operator finds the alarm in the log. The receipt is asked about again until the secret is corrected.
            throw Problem(
                .serviceUnavailable, "receipts of this app cannot be checked: see the server log",
                headers: [.location: Self.location(handIn)],
                receipt: Problem.RefusedReceipt(id: handIn.id, appStoreStatus: nil))
        case .pending: return Self.pending(handIn, .accepted)
        }
    }

    private static func pending(_ handIn: HandIn, _ status: HTTPResponse.Status) -> Response {
        var response = JSONResponse.json(status) { writer in
            writer.member("id", handIn.id)
            writer.member("app", handIn.app)
            writer.member("state", handIn.state.rawValue)
        }
        response.headers[.location] = location(handIn)
        return response
    }

    private static func location(_ handIn: HandIn) -> String { "/receipts/\(handIn.id)" }

    /// Reads what the projections say about a receipt that was answered or refused.
    ///
    /// - Parameter waits: Whether to wait until the event of the receipt is projected.
    private func content(
        of verdict: HandInService.Verdict, _ receipts: HandInService, waits: Bool
    ) async throws -> ReceiptContent {
        let handIn = verdict.handIn
        guard handIn.state == .answered, let environment = handIn.findings.environment else {
            return ReceiptContent(handIn: handIn, purchases: nil)
        }
        let stream = StreamKey(app: handIn.app, environment: environment)
        var isProjected = true
        if let position = verdict.position {
            isProjected = try await receipts.isFolded(stream, through: position, waits: waits)
        }
        let content = try await purchases.content(
            of: handIn.findings.subscriptions, customerId: handIn.customerId, in: stream,
            isLinked: handIn.findings.isLinked, isProjected: isProjected)
        return ReceiptContent(handIn: handIn, purchases: content)
    }
}
