import Encoding

/// A notification that the store made, with its attempts to send it.
package struct SimulatedNotification: Sendable, Hashable {
    package let notificationUUID: String
    package let type: String
    package let subtype: String?
    package let signedDate: Instant
    /// The purchase that it is about; nil for one of no story.
    package let transactionId: String?
    package let attempts: [SendAttempt]

    /// `{"notificationUUID":…,"notificationType":…,"subtype":…,"signedDate":…,"sendAttempts":[…]}`
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("notificationUUID", notificationUUID)
            writer.member("notificationType", type)
            writer.member("subtype", subtype)
            writer.member("signedDate", signedDate)
            writer.key("sendAttempts")
            writer.array(attempts) { $1.write(to: &$0) }
        }
    }
}

/// An attempt to send a notification.
package struct SendAttempt: Sendable, Hashable {
    package enum Result: String, Sendable, CaseIterable {
        case success = "SUCCESS"
        case timedOut = "TIMED_OUT"
        case unsuccessfulResponse = "UNSUCCESSFUL_HTTP_RESPONSE_CODE"
        case noResponse = "NO_RESPONSE"
        case prematureClose = "PREMATURE_CLOSE"
        case socketIssue = "SOCKET_ISSUE"
        case tlsIssue = "TLS_ISSUE"
        case circularRedirect = "CIRCULAR_REDIRECT"
        case unsupportedCharset = "UNSUPPORTED_CHARSET"
        case invalidResponse = "INVALID_RESPONSE"
        case other = "OTHER"
        /// Not in Apple's documentation, like a result that Apple adds one day.
        case undocumented = "QUEUE_OVERFLOW"
    }

    /// On the store's clock.
    package let at: Instant
    package let result: Result

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("attemptDate", at.milliseconds)
            writer.member("sendAttemptResult", result.rawValue)
        }
    }
}
