import Encoding
import Subscriptions

/// A decoded notification of either version. Not verified, so it must not be trusted.
package enum AppleNotification: Sendable {
    case v1(V1Notification)
    case v2(V2Notification)

    /// Decodes a body as version 2 if it has a `signedPayload`, otherwise as version 1. The URL does not determine the
    /// version: a TEST notification is signed even at a URL that is registered for version 1.
    package init(decoding body: [UInt8]) throws(UndecodableBody) {
        let document: JSONDocument
        do throws(JSONError) {
            document = try JSONDocument(body)
        } catch {
            throw .notJSON(error)
        }
        guard document.root.isObject else { throw .notAnObject }
        if let signed = document.root["signedPayload"], signed.isString {
            let text = signed.isEscaped ? signed.unescapedBytes[...] : document.bytes[signed.contentRange]
            self = .v2(try V2Notification(decoding: text))
        } else {
            self = .v1(try V1Notification(document))
        }
    }

    /// Returns the notification as a normalised event.
    ///
    /// - Parameters:
    ///   - receivedAt: Our clock. Unsigned notifications contain no date of their own.
    ///   - bodyDigest: SHA-256 of the stored body; computed if nil. Used for unsigned notifications only.
    ///   - source: Of a signed notification; see ``V2Notification/event(source:)``.
    package func event(
        receivedAt: Instant, bodyDigest: [UInt8]? = nil, source: EventSource = .appleV2
    ) -> Event {
        switch self {
        case .v1(let notification): notification.event(receivedAt: receivedAt, bodyDigest: bodyDigest)
        case .v2(let notification): notification.event(source: source)
        }
    }
}
