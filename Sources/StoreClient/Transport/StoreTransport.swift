/// Sends requests to a store.
package protocol StoreTransport: Sendable {
    /// Sends a request and returns the response, whatever its status and `Content-Type`. Follows no redirect.
    ///
    /// - Parameters:
    ///   - timeout: Longest duration until the whole response has arrived.
    ///   - bytesMax: Maximum length of the response's body. Longer ones are not read to their end.
    func send(
        _ request: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse
}

/// A request to a store over HTTP.
package struct StoreRequest: Sendable, Hashable {
    /// `GET`, `POST` or `PUT`.
    package let method: String
    package let url: String
    /// The bearer token; nil for a request without one.
    package let token: String?
    /// Nil for a request without a body.
    package let body: [UInt8]?
    /// The media type of the body.
    package let contentType: String

    package static let json = "application/json"
    package static let form = "application/x-www-form-urlencoded"

    package init(
        _ method: String, _ url: String, token: String? = nil, body: [UInt8]? = nil, contentType: String = Self.json
    ) {
        self.method = method
        self.url = url
        self.token = token
        self.body = body
        self.contentType = contentType
    }
}

/// A store's response over HTTP.
package struct StoreResponse: Sendable, Hashable {
    package let status: Int
    /// The header `Retry-After`; nil if there is none.
    package let retryAfter: String?
    /// The header `Cache-Control`; nil if there is none.
    package let cacheControl: String?
    package let body: [UInt8]

    package init(status: Int, retryAfter: String? = nil, cacheControl: String? = nil, body: [UInt8]) {
        self.status = status
        self.retryAfter = retryAfter
        self.cacheControl = cacheControl
        self.body = body
    }

    /// The header `Retry-After`, if that is a number of seconds.
    package var secondsToWait: Duration? {
        retryAfter.flatMap { Int32($0) }.map { .seconds(max(0, $0)) }
    }
}

/// Why there is no response. It quotes nothing of the request.
package enum TransportFailure: Error, Hashable, CaseIterable, CustomStringConvertible {
    case timeout
    /// The response is longer than allowed.
    case tooLong
    /// No connection, or it ended before the response did.
    case unreachable
    case cancelled

    package var description: String {
        switch self {
        case .timeout: "the store did not respond in time"
        case .tooLong: "the store's response is too long"
        case .unreachable: "no connection to the store"
        case .cancelled: "cancelled"
        }
    }
}
