import AsyncHTTPClient
import Foundation
import NIOCore
import StoreSimulator
import Subscriptions

/// Asks the private listener of a server about one app.
struct AnswerReader {
    let client: HTTPClient
    let address: String
    let token: String?
    let app: SimulatedApp

    enum Limits {
        static let answerWaitMax = TimeAmount.seconds(30)
        static let answerBytesMax = 1 << 22
    }

    /// Nil when there was no answer that says so.
    func isActive(_ originalTransactionId: String, at instant: Instant) async -> Bool? {
        switch await answer("/subscriptions/\(Self.segment(originalTransactionId))", at: instant) {
        // What the server never heard of is not active.
        case .unknown: false
        case .document(let document): document.root["active"]?.bool
        case nil: nil
        }
    }

    /// What the server lists as active; nil when there was no answer.
    func entitlements(of customerId: String, at instant: Instant) async -> [String: AccessText]? {
        switch await answer("/customers/\(Self.segment(customerId))/entitlements", at: instant) {
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

    private enum Content {
        case document(JSONDocument), unknown
    }

    private func answer(_ path: String, at instant: Instant) async -> Content? {
        guard var request = Self.request(address, path, app, [URLQueryItem(name: "at", value: instant.description)])
        else { return nil }
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

    /// An id as it may stand in a path.
    static func segment(_ id: String) -> String {
        id.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(CharacterSet(charactersIn: "-._~"))) ?? id
    }

    /// A request about an app. Nil if the address cannot be read.
    ///
    /// - Parameter path: Percent-encoded.
    static func request(
        _ address: String, _ path: String, _ app: SimulatedApp, _ query: [URLQueryItem] = []
    ) -> HTTPClientRequest? {
        let base = address.hasSuffix("/") ? String(address.dropLast()) : address
        guard var components = URLComponents(string: base + path) else { return nil }
        components.queryItems =
            [
                URLQueryItem(name: "app", value: app.bundleId),
                URLQueryItem(name: "environment", value: app.environment.rawValue),
            ] + query
        return components.string.map { HTTPClientRequest(url: $0) }
    }
}

extension HTTPClientRequest {
    /// Shows the token, if there is one.
    mutating func authorize(_ token: String?) {
        if let token { headers.add(name: "authorization", value: "Bearer \(token)") }
    }
}
