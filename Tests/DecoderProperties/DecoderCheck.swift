import AppStore
import Encoding
import Subscriptions

/// Checks the properties of decoding and verifying one input, valid or not. deploy/fuzz generates the inputs, and
/// CorpusTests repeats the known ones.
package struct DecoderCheck: Sendable {
    /// The body of the notification: the input itself, or a body around it if the input stands for a part.
    package let body: [UInt8]
    private let isSigned: Bool

    /// Creates the verifier's caches, which live as long as the process. Calling it is optional.
    package static func prepare() {
        _ = verifier
        _ = RootCertificates.apple
    }

    package init(_ input: [UInt8]) {
        let signed = SignedInput(input)
        body = signed?.body ?? input
        isSigned = signed != nil
    }

    /// Decodes the body and checks the event, and the evidence of a signed notification.
    ///
    /// - Parameter measure: Runs the decoding, for example to measure its memory.
    /// - Returns: The event; nil if the body is neither a notification nor an answer of verifyReceipt.
    /// - Throws: ``BrokenPromise``, the first property that does not hold.
    package func decode(
        _ measure: (_ decoding: () -> Void) throws(BrokenPromise) -> Void = { $0() }
    ) throws(BrokenPromise) -> Event? {
        var event: Event?
        try measure { event = decodedEvent(body) }
        if let event { try checkEvent(event) }
        if case .v2(let notification)? = try? AppleNotification(decoding: body) {
            try checkEvidence(notification.evidence)
            let again = try? AppleNotification(decoding: notification.evidence.bytes)
            try promise(
                again?.event(receivedAt: receivedAt) == event, "the stored body of a notification is the same event")
        }
        return event
    }

    /// Verifies the body and checks the result.
    ///
    /// - Parameter event: The result of ``decode(_:)``.
    /// - Throws: ``BrokenPromise``, the first property that does not hold.
    package func verify(_ event: Event?) async throws(BrokenPromise) {
        if event?.source == .appleReceipt {
            try checkAnswer(body, as: event)
        } else if isSigned || event?.source == .appleV2 {
            try await checkRefusal(of: body, as: event)
        } else {
            try checkVerification(of: body, as: event)
        }
    }
}

/// A property that does not hold for an input.
package struct BrokenPromise: Error, CustomStringConvertible {
    package let description: String
}

package func promise(_ isKept: Bool, _ text: StaticString) throws(BrokenPromise) {
    guard isKept else { throw BrokenPromise(description: "\(text)") }
}

let receivedAt = Instant(milliseconds: 1_637_366_400_000) ?? .latest

func decodedEvent(_ body: [UInt8]) -> Event? {
    if let notification = try? AppleNotification(decoding: body) { return notification.event(receivedAt: receivedAt) }
    // Only the client of the App Store accepts answers, but they are decoded by the same rules.
    return (try? StoredAnswer(decoding: body))?.event(app: nil, environment: nil, receivedAt: receivedAt)
}

func jsonObject(_ content: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    writer.object(content)
    return writer.bytes
}
