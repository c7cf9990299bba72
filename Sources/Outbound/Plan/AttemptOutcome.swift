/// What came of one attempt.
package struct AttemptOutcome: Sendable, Hashable {
    /// The classes of outcomes. The raw values are in the database, in metrics and in the API.
    package enum Class: String, Sendable, CaseIterable {
        /// A status from 200 to 299.
        case success
        /// A status from 300 to 399. Redirects are never followed: they would send the message to an address that is not
        /// configured.
        case redirect
        /// Status 410: the receiver wants no more messages.
        case gone
        /// Another status from 400 to 499.
        case clientError = "client_error"
        /// Any other status.
        case serverError = "server_error"
        case timeout
        /// No connection, a connection that was lost, a name without an address.
        case unreachable
        /// The certificate of the receiver is not valid: unknown issuer, another name, expired.
        case certificate
        /// The host has an address that is not public.
        case addressRefused = "address_refused"
        /// No key signs for the endpoint.
        case noKey = "no_key"
        /// The log has no body of the event any more, so nothing was sent. Erased bodies are not among these.
        case bodyLost = "body_lost"
    }

    package let `class`: Class
    /// The HTTP status; nil without a response.
    package var status: Int?
    /// How long the receiver asks to wait.
    package var retryAfter: Duration?

    package init(_ class: Class, status: Int? = nil, retryAfter: Duration? = nil) {
        self.class = `class`
        self.status = status
        self.retryAfter = retryAfter
    }

    /// The outcome of a response.
    package init(status: Int, retryAfter: Duration? = nil) {
        self.status = status
        self.retryAfter = retryAfter
        `class` =
            switch status {
            case 200..<300: .success
            case 300..<400: .redirect
            case 410: .gone
            case 400..<500: .clientError
            default: .serverError
            }
    }

    package var isSuccess: Bool { `class` == .success }

    /// How long no message is sent to the endpoint: what a receiver that is overloaded asks for.
    package var hold: Duration? {
        guard status == 429 || status == 502 || status == 503 || status == 504 else { return nil }
        return retryAfter.map { min($0, Limits.retryAfterMax) }
    }
}
