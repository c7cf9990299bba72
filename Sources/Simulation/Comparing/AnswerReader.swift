import AsyncHTTPClient
import Encoding
import Foundation
import NIOCore

/// Reads answers about one app from a private listener.
struct AnswerReader {
    let client: HTTPClient
    let address: String
    let token: String?
    let app: SimulatedApp

    enum Limits {
        static let answerWaitMax = TimeAmount.seconds(30)
        static let answerBytesMax = 1 << 23
        static let changesAtOnce = 1000
    }

    /// Whether the subscription is active at the instant; nil if the server gave no usable answer.
    func isActive(_ originalTransactionId: String, at instant: Instant) async -> Bool? {
        switch await answer("/subscriptions/\(Self.segment(originalTransactionId))", at: instant) {
        // A subscription that is unknown to the server is not active.
        case .unknown: false
        case .document(let document): document.root["active"]?.bool
        case nil: nil
        }
    }

    /// The status of the subscription or one-time purchase with the purchase token; nil if the server gave no usable
    /// answer.
    func access(of purchaseToken: String, at instant: Instant) async -> AccessText? {
        switch await answer("/subscriptions/\(Self.segment(purchaseToken))", at: instant) {
        case .unknown: return AccessText(active: false, until: nil, status: PlayStatus.never.rawValue)
        case .document(let document):
            guard let active = document.root["active"]?.bool else { return nil }
            return AccessText(
                active: active, until: document.root["accessUntil"]?.string.flatMap { Instant(iso8601: $0) },
                status: document.root["status"]?.string, productId: document.root["productId"]?.string)
        case nil: return nil
        }
    }

    /// The active entitlements by name; nil if the server gave no usable answer.
    func entitlements(of customer: SimulatedId, at instant: Instant) async -> [String: AccessText]? {
        let kind = URLQueryItem(name: "as", value: customer.kind.rawValue)
        switch await answer("/customers/\(Self.segment(customer.text))/entitlements", at: instant, [kind]) {
        case .unknown: return [:]
        case .document(let document):
            guard let listed = document.root["entitlements"], listed.isArray else { return nil }
            var active: [String: AccessText] = [:]
            for element in listed.elements(atMost: Limits.answerBytesMax) where element["active"]?.bool == true {
                guard let name = element["entitlement"]?.string else { return nil }
                let until = element["until"]?.string.flatMap { Instant(iso8601: $0) }
                active[name] = AccessText(active: true, until: until)
            }
            return active
        case nil: return nil
        }
    }

    /// The change feed from its first change to its last, folded; nil if the server gave no usable answer.
    ///
    /// - Returns: With the time until which it was read.
    func feed() async -> (fold: FeedFold, asOf: Instant)? {
        var fold = FeedFold()
        var cursor: String?
        while true {
            let place = cursor.map { URLQueryItem(name: "after", value: $0) }
            let more = [place, URLQueryItem(name: "limit", value: "\(Limits.changesAtOnce)")].compactMap(\.self)
            let page: JSONValue
            switch await answer("/changes", at: nil, more) {
            case .document(let document): page = document.root
            case .unknown, nil: return nil
            }
            guard let asOf = page["asOf"]?.string.flatMap({ Instant(iso8601: $0) }), let next = page["cursor"]?.string,
                let changes = page["changes"], changes.isArray
            else { return nil }
            let listed = changes.elements
            for element in listed {
                guard let change = FeedChange(element) else { return nil }
                fold.add(change)
            }
            guard !listed.isEmpty || page["more"]?.bool == true else { return (fold, asOf) }
            cursor = next
        }
    }

    private enum Content {
        case document(JSONDocument), unknown
    }

    private func answer(_ path: String, at instant: Instant?, _ more: [URLQueryItem] = []) async -> Content? {
        let query = [instant.map { URLQueryItem(name: "at", value: $0.description) }].compactMap(\.self) + more
        guard var request = Self.request(address, path, app, query) else { return nil }
        request.authorize(token)
        do {
            let response = try await client.execute(request, timeout: Limits.answerWaitMax)
            let body = try await response.body.collect(upTo: Limits.answerBytesMax)
            if response.status == .notFound { return .unknown }
            guard response.status == .ok else { return nil }
            return .document(try JSONDocument(Array(body.readableBytesView)))
        } catch {
            return nil
        }
    }

    /// Percent-encodes an id for use as a path segment.
    static func segment(_ id: String) -> String {
        id.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(CharacterSet(charactersIn: "-._~"))) ?? id
    }

    /// A request about the app; nil if the address is not a URL.
    ///
    /// - Parameter path: Percent-encoded.
    static func request(
        _ address: String, _ path: String, _ app: SimulatedApp, _ query: [URLQueryItem] = [],
        environment: String? = nil
    ) -> HTTPClientRequest? {
        let base = address.hasSuffix("/") ? String(address.dropLast()) : address
        guard var components = URLComponents(string: base + path) else { return nil }
        components.queryItems =
            [
                URLQueryItem(name: "app", value: app.bundleId),
                URLQueryItem(name: "environment", value: environment ?? app.environment.rawValue),
            ] + query
        return components.string.map { HTTPClientRequest(url: $0) }
    }
}

extension HTTPClientRequest {
    /// Adds the bearer token, if there is one.
    mutating func authorize(_ token: String?) {
        if let token { headers.add(name: "authorization", value: "Bearer \(token)") }
    }
}
