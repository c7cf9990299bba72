/// Sends requests to a store.
package protocol StoreTransport: Sendable {
    /// Posts JSON and returns the response, whatever its status and `Content-Type`. Follows no redirect.
    ///
    /// - Parameters:
    ///   - timeout: Longest duration until the whole response has arrived.
    ///   - bytesMax: Maximum length of the response's body. Longer ones are not read to their end.
    func post(
        _ body: [UInt8], to url: String, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse
}

/// A store's response over HTTP.
package struct StoreResponse: Sendable, Hashable {
    package let status: Int
    /// From the header `Retry-After`, if that is a number of seconds.
    package let retryAfter: Duration?
    package let body: [UInt8]

    package init(status: Int, retryAfter: Duration? = nil, body: [UInt8]) {
        self.status = status
        self.retryAfter = retryAfter
        self.body = body
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
