import Encoding
import Subscriptions

/// A notification of version 2 as Apple reports it, with the attempts to deliver it. Nothing of it is verified.
package struct SentNotification: Sendable, Hashable {
    /// As it was posted.
    package let body: [UInt8]
    /// In no particular order: six at most, and one in the sandbox.
    package let attempts: [Attempt]

    package struct Attempt: Sendable, Hashable {
        package let at: Instant
        /// As Apple spells it, and results that this version does not know.
        package let result: String

        package var isSuccess: Bool { result == "SUCCESS" }
    }

    /// - Parameter item: An object with `signedPayload` and `sendAttempts`.
    init(_ item: JSONValue, of answer: ServerAnswer) throws(UnreadableJSON) {
        let payload = try answer.text(item["signedPayload"], "signedPayload")
        body = Array("{\"signedPayload\":\"".utf8) + payload + Array("\"}".utf8)
        var attempts: [Attempt] = []
        for attempt in item["sendAttempts"]?.elements(atMost: Self.attemptsMax) ?? [] {
            guard let milliseconds = attempt["attemptDate"]?.int64, let at = Instant(milliseconds: milliseconds),
                let result = attempt["sendAttemptResult"]?.string
            else { throw .missing("sendAttempts") }
            attempts.append(Attempt(at: at, result: String(result.prefix(Self.resultLengthMax))))
        }
        self.attempts = attempts
    }

    /// What identifies the notification, and when Apple signed it; nil if it has no readable date.
    package var identity: (key: DedupeKey, signedAt: Instant)? {
        guard case .v2(let notification) = try? AppleNotification(decoding: body) else { return nil }
        let event = notification.event()
        return event.occurredAt.map { (event.dedupeKey, $0) }
    }

    private static let attemptsMax = 100
    private static let resultLengthMax = 64
}
