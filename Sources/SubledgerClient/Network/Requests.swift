import Foundation

/// The requests of the client, and what their answers mean.
enum Requests {
    /// The header with the text of a ``UserAssertion``.
    static let assertionHeader = "Subledger-Assertion"

    /// Hands signed texts in for a customer.
    static func handIn(
        _ texts: [String], appTransaction: String?, app: String, customerId: String
    ) throws -> ClientRequest {
        var members: [String: Any] = ["signedTransaction": texts, "customerId": customerId]
        if let appTransaction { members["appTransaction"] = appTransaction }
        return ClientRequest(
            // The server knows the environment from the signed text; production or sandbox is no choice of the app.
            method: "POST", path: "/transactions?app=\(encoded(app))&environment=any",
            headers: ["Content-Type": "application/json"],
            body: try JSONSerialization.data(withJSONObject: members, options: .sortedKeys))
    }

    static func entitlements(app: String, customerId: String, environment: String, tag: String?) -> ClientRequest {
        var headers = ["Accept": "application/jwt"]
        if let tag { headers["If-None-Match"] = tag }
        return ClientRequest(
            method: "GET",
            path: "/customers/\(encoded(customerId))/entitlements?app=\(encoded(app))"
                + "&environment=\(encoded(environment))&signed=true",
            headers: headers)
    }

    /// Escapes everything but the characters that RFC 3986 leaves as they are everywhere.
    private static func encoded(_ text: String) -> String {
        let plain = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
        return text.addingPercentEncoding(withAllowedCharacters: plain) ?? ""
    }
}

/// What the server says about transactions that it has stored.
struct StoredAnswer: Sendable {
    let environment: String
    /// The entitlements of products, as far as the answer names them.
    let products: [String: [String]]

    private struct Body: Decodable {
        let environment: String
        let entitlements: [Granted]

        struct Granted: Decodable {
            let entitlement: String
            let productIds: [String]
        }
    }

    init?(_ data: Data) {
        guard let body = try? JSONDecoder().decode(Body.self, from: data) else { return nil }
        environment = body.environment
        var products: [String: Set<String>] = [:]
        for granted in body.entitlements {
            for product in granted.productIds { products[product, default: []].insert(granted.entitlement) }
        }
        self.products = products.mapValues { $0.sorted() }
    }
}

extension SubledgerError {
    /// The error of a response that is not a success.
    init(_ response: ClientResponse) {
        guard ![401, 408, 429].contains(response.status), response.status < 500 else {
            self = .unavailable(
                status: response.status, retryAfter: response.headers["retry-after"].flatMap { Double($0) })
            return
        }
        let problem = (try? JSONSerialization.jsonObject(with: response.body)) as? [String: Any]
        self = .refused(status: response.status, detail: problem?["detail"] as? String ?? "")
    }
}
