import Foundation

/// How requests reach the server: directly, or through the app's own backend, which passes them on.
public protocol Transport: Sendable {
    /// - Throws: Any error if there was no response. The request is repeated later.
    func send(_ request: ClientRequest) async throws -> ClientResponse
}

public struct ClientRequest: Sendable, Hashable {
    public let method: String
    /// With the query, percent-encoded: `/transactions?app=com.example.app&environment=any`.
    public let path: String
    public var headers: [String: String]
    public let body: Data?

    public init(method: String, path: String, headers: [String: String] = [:], body: Data? = nil) {
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
    }
}

public struct ClientResponse: Sendable, Hashable {
    public let status: Int
    /// By names in lower case.
    public let headers: [String: String]
    public let body: Data

    public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
        self.status = status
        self.headers = Dictionary(headers.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
        self.body = body
    }
}

/// Who the user is, in words that the server believes: a short-lived JWT that the app's backend signed, with `sub` and `exp`.
public protocol UserAssertion: Sendable {
    /// - Parameter isRenewal: Whether the server refused the last one, so that a kept one must not be used again.
    /// - Returns: The JWT; nil if the transport's backend knows the user by other means.
    func text(isRenewal: Bool) async throws -> String?
}

/// For a transport whose backend knows the user by its own session.
public struct NoAssertion: UserAssertion {
    public init() {}

    public func text(isRenewal: Bool) async throws -> String? { nil }
}
