import AppStore
import Encoding
import Foundation
import HTTPTypes
import Hummingbird
import Subscriptions

/// `POST /offers/signatures?app=` signs that a customer may use an offer: the backend decides, and the app passes the
/// signature to StoreKit.
package struct OfferRoutes: RouteSet {
    private let keys: [String: ServerAPIKey]
    private let now: @Sendable () -> Instant
    private let makeNonce: @Sendable () -> String
    private let bodies = BodyReader()
    private let rate = KeyedBuckets<String>(
        perSecond: Limits.offerSignaturesPerSecond, capacity: Limits.offerSignatureBurstMax,
        keysMax: Limits.handInCustomersMax)

    /// - Parameters:
    ///   - keys: The keys for the App Store Server API, by bundle id.
    ///   - now: Our clock.
    ///   - makeNonce: A new UUID in lower case for each signature.
    package init(
        keys: [String: ServerAPIKey], now: @escaping @Sendable () -> Instant,
        makeNonce: @escaping @Sendable () -> String = { UUID().uuidString.lowercased() }
    ) {
        self.keys = keys
        self.now = now
        self.makeNonce = makeNonce
    }

    package func add(to routes: PrivateRoutes) {
        routes.submit.post("/offers/signatures") { request, _ in try await sign(request) }
    }

    private func sign(_ request: Request) async throws -> Response {
        let app = try RequestQuery(request).app()
        guard let key = keys[app] else {
            throw Problem(
                .notFound, "this app is not configured with a key for the App Store Server API", field: "app")
        }
        let wanted = try await bodies.withJSON(of: request, bytesMax: Limits.offerBodyBytesMax) { json in
            try OfferSignature.Request(json: json)
        }
        guard rate.admit(app, at: .now) else {
            throw Problem(
                .tooManyRequests,
                "too many signatures for this app: at most \(Limits.offerSignaturesPerSecond) per second", field: "app",
                headers: [.retryAfter: "\(Limits.retryAfterSeconds)"])
        }
        let signature = try key.signature(of: wanted, for: app, nonce: makeNonce(), at: now())
        return JSONResponse.json(.ok) { writer in
            writer.member("app", app)
            writer.member("type", wanted.name)
            switch signature {
            case .text(let text): writer.member("jws", text)
            case .discount(let discount):
                writer.member("keyId", discount.keyId)
                writer.member("nonce", discount.nonce)
                writer.member("timestamp", discount.timestamp)
                writer.member("signature", discount.signature)
            }
        }
    }
}

extension OfferSignature.Request {
    /// The value of `type`.
    fileprivate var name: String {
        switch self {
        case .promotional: "promotional"
        case .discount: "promotional-v1"
        case .introductory: "introductory"
        }
    }

    /// Members of each type; `type` is one of all.
    private static let members: [String: Set<String>] = [
        "promotional": ["productId", "offerId", "transactionId"],
        "promotional-v1": ["productId", "offerId", "appAccountToken"],
        "introductory": ["productId", "allowed", "transactionId"],
    ]

    /// Reads `{"type","productId",…}`.
    fileprivate init(json: JSONValue) throws(RequestQuery.Malformed) {
        guard json.isObject else { throw RequestQuery.Malformed(problem: "the body must be a JSON object") }
        guard let type = json["type"]?.string, let known = Self.members[type] else {
            throw RequestQuery.Malformed(
                problem: "type must be promotional, promotional-v1 or introductory", field: "type")
        }
        // Ignoring a misspelt name would sign something else.
        if let other = json.members.compactMap(\.key.string).first(where: { $0 != "type" && !known.contains($0) }) {
            throw RequestQuery.Malformed(problem: "unknown member \"\(other)\" of type \(type)", field: other)
        }
        func optional(_ name: StaticString) throws(RequestQuery.Malformed) -> String? {
            guard let value = json[name], !value.isNull else { return nil }
            guard let text = value.string, (1...Limits.offerTextBytesMax).contains(text.utf8.count),
                text.unicodeScalars.allSatisfy({ $0.isASCII && $0.value > 0x20 && $0.value != 0x7F })
            else {
                throw RequestQuery.Malformed(
                    problem: "\(name) must be a string of 1 to \(Limits.offerTextBytesMax) printable ASCII characters",
                    field: name.description)
            }
            return text
        }
        func required(_ name: StaticString) throws(RequestQuery.Malformed) -> String {
            guard let text = try optional(name) else {
                throw RequestQuery.Malformed(problem: "\(name) must be a string", field: name.description)
            }
            return text
        }
        let productId = try required("productId")
        switch type {
        case "promotional":
            self = .promotional(
                productId: productId, offerId: try required("offerId"), transactionId: try optional("transactionId"))
        case "promotional-v1":
            let token = try optional("appAccountToken")
            guard token.map({ UUID(uuidString: $0) != nil }) ?? true else {
                throw RequestQuery.Malformed(problem: "appAccountToken must be a UUID", field: "appAccountToken")
            }
            self = .discount(
                productId: productId, offerId: try required("offerId"), accountToken: token?.lowercased())
        default:
            guard let isAllowed = json["allowed"]?.bool else {
                throw RequestQuery.Malformed(problem: "allowed must be true or false", field: "allowed")
            }
            self = .introductory(
                productId: productId, isAllowed: isAllowed, transactionId: try required("transactionId"))
        }
    }
}
