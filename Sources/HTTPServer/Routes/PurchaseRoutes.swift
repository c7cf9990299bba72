import Encoding
import HTTPTypes
import Hummingbird
import PlayStore
import StoreClient
import Subscriptions

/// `POST /purchases` hands in a purchase of Google Play: its token, or the text that Google Play signed for the app.
struct PurchaseRoutes: Sendable {
    let handIns: PurchaseHandIn?
    let purchases: PurchaseReader
    private let bodies = BodyReader()
    private let rate = HandInRate()

    init(handIns: PurchaseHandIn?, purchases: PurchaseReader) {
        self.handIns = handIns
        self.purchases = purchases
    }

    func add(to routes: PrivateRoutes) {
        routes.apps.submit.post("/purchases") { request, _ in try await handIn(request) }
    }

    private func handIn(_ request: Request) async throws -> Response {
        let query = RequestQuery(request)
        let (app, granted) = (try query.app(), try query.granting())
        try AppUser.current?.check(app: app)
        guard let handIns else {
            throw Problem(
                .notImplemented,
                "purchases disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        guard handIns.accepts(app) else {
            throw Problem(.notFound, "this app is not configured with credentials for Google Play", field: "app")
        }
        do {
            // The whole answer is made here, so that the bodies of waiting requests count as held.
            return try await bodies.withJSON(of: request, bytesMax: Limits.purchaseBodyBytesMax) { json in
                let customerId = try AppUser.customerId(of: json)
                let handed = try Self.handed(json)
                try rate.admit(customerId, app)
                let verdict = try await handIns.handIn(handed, app: app, customerId: customerId)
                return try await answer(verdict, app, customerId, granted, handIns)
            }
        } catch BodyReader.Failure.tooLarge {
            throw Problem(.contentTooLarge, "the body is larger than \(Limits.purchaseBodyBytesMax) bytes")
        }
    }

    // MARK: - Requests

    private static func handed(_ json: JSONValue) throws -> PurchaseHandIn.Handed {
        let (token, signed) = (try text("purchaseToken", json), try text("signedPurchase", json))
        switch (token, signed) {
        case (let token?, nil):
            guard let purchaseToken = PurchaseToken(token) else {
                throw RequestQuery.Malformed(
                    problem: "purchaseToken must be a token of visible ASCII characters", field: "purchaseToken")
            }
            return .token(purchaseToken, productId: try text("productId", json))
        case (nil, let signed?):
            guard let signature = try text("signature", json) else {
                throw RequestQuery.Malformed(
                    problem: "signature must be a string with base64", field: "signature")
            }
            return .signed(Array(signed.utf8), signature: signature)
        default:
            throw RequestQuery.Malformed(
                problem: "purchaseToken must be a string, or signedPurchase and signature must be",
                field: "purchaseToken")
        }
    }

    private static func text(_ key: StaticString, _ json: JSONValue) throws -> String? {
        guard let value = json[key], !value.isNull else { return nil }
        guard let text = value.string else {
            throw RequestQuery.Malformed(problem: "\(key) must be a string", field: "\(key)")
        }
        return text
    }

    // MARK: - Responses

    private func answer(
        _ verdict: PurchaseHandIn.Verdict, _ app: String, _ customerId: String?, _ granted: GrantedEnvironment,
        _ handIns: PurchaseHandIn
    ) async throws -> Response {
        switch verdict {
        case .answered(let answer):
            try granted.check(answer.stream.environment)
            return try await content(of: answer, customerId, handIns)
        case .pending:
            return JSONResponse.json(.accepted) { writer in
                writer.member("app", app)
                writer.member("customerId", customerId)
                writer.member("state", "pending")
            }
        case .refused(let refusal): throw Problem(.unprocessableContent, refusal.description, field: refusal.field)
        case .accountRejected:
            // The operator finds the alarm in the log.
            throw Problem(.serviceUnavailable, "purchases of this app cannot be checked: see the server log")
        }
    }

    private func content(
        of answer: PurchaseHandIn.Answer, _ customerId: String?, _ handIns: PurchaseHandIn
    ) async throws -> Response {
        var isProjected = true
        if let position = answer.lastPosition {
            isProjected = try await handIns.isFolded(answer.stream, through: position)
        }
        let content = try await purchases.content(
            of: answer.subscriptions, customerId: customerId, in: answer.stream, isLinked: answer.isLinked,
            isProjected: isProjected)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", answer.stream.app)
            writer.member("environment", answer.stream.environment.rawValue)
            writer.member("customerId", customerId)
            writer.member("state", "answered")
            writer.member("storeState", answer.state)
            writer.key("checks")
            writer.object { writer in
                writer.member("genuine", true)
                writer.member("ofThisApp", true)
                writer.member("registered", content.registration(answer.registration).rawValue)
                writer.member("inForce", content.isInForce)
            }
            content.write(position: answer.position, to: &writer)
        }
    }
}

extension PurchaseHandIn.Refusal {
    fileprivate var field: String {
        switch self {
        case .signature(.signature): "signature"
        case .signature, .noLicenseKey: "signedPurchase"
        case .notFound, .gone, .wrong: "purchaseToken"
        }
    }
}
