import Encoding
import Subscriptions

/// A notification of either version as its sender wrote it: decoded, and not to be trusted.
package enum AppleNotification: Sendable {
    case v1(V1Notification)
    case v2(V2Notification)

    /// Tells the versions apart by `signedPayload`: a TEST notification is signed even at a URL that is registered for
    /// version 1.
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

    /// What the notification says, in the vocabulary of all sources.
    ///
    /// - Parameters:
    ///   - receivedAt: Our clock. Unsigned notifications have none of their own.
    ///   - bodyDigest: SHA-256 of the body as it is stored, if that is known; only unsigned notifications need it.
    package func event(receivedAt: Instant, bodyDigest: [UInt8]? = nil) -> Event {
        switch self {
        case .v1(let notification): notification.event(receivedAt: receivedAt, bodyDigest: bodyDigest)
        case .v2(let notification): notification.event()
        }
    }
}
