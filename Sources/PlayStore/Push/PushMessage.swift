import Encoding
import Subscriptions

/// A decoded push of Cloud Pub/Sub with a developer notification. Not verified, so it must not be trusted.
///
/// The message around the notification is optional and has two spellings, `messageId` and `message_id`. What is inside
/// may be malformed: a genuine push is stored and acknowledged whatever it contains, because Pub/Sub would repeat it for
/// seven days and slow down all others.
package struct PushMessage: Sendable {
    /// Pub/Sub's id of the message, the same for each delivery; nil if the message has none or two different ones.
    package let messageId: String?
    package let publishTime: Instant?
    /// `projects/{project}/subscriptions/{name}`; nil if the push does not say it.
    package let subscription: String?
    /// The number of this delivery, from 1; nil without a dead-letter topic, for which alone Pub/Sub counts. Deliveries of
    /// one message differ in it, so it is no part of the event.
    package let deliveryAttempt: Int?
    /// Nil if the data is missing or malformed.
    package let notification: DeveloperNotification?
    /// The body to store: as it arrived. An unwrapped notification is stored in a message around it.
    package let evidence: Evidence
    let defects: [Defect]

    /// True if the two spellings of a field have different values. Such a push is stored, and nothing follows from it.
    package let isAmbiguous: Bool

    /// The app that the notification is about; nil if it does not say it.
    package var packageName: String? { notification?.packageName }

    /// - Throws: ``UndecodablePush`` if the body is not a push at all. It must not be acknowledged.
    package init(decoding body: [UInt8], headers: PushHeaders = .none) throws(UndecodablePush) {
        let root: JSONValue
        do throws(JSONError) {
            root = try JSONDocument(body).root
        } catch {
            guard headers.messageId != nil else { throw .notJSON(error) }
            self = try Self.wrapping(body, headers)
            return
        }
        if let message = root["message"], message.isObject {
            // What surrounds the message is in the body. Headers are not stored, so they must not count beside it.
            self.init(message, in: root, Evidence(body))
        } else if headers.messageId != nil || DeveloperNotification.isOne(root) {
            self = try Self.wrapping(body, headers)
        } else {
            throw .notAPush
        }
    }

    /// The same push as if its notification were not unwrapped, so that there is one form in the log.
    private static func wrapping(_ body: [UInt8], _ headers: PushHeaders) throws(UndecodablePush) -> PushMessage {
        var writer = JSONWriter(bytesExpected: body.count * 2)
        writer.object { writer in
            writer.key("message")
            writer.object { writer in
                writer.member("data", Base64.text(body))
                writer.member("messageId", headers.messageId)
                writer.member("publishTime", headers.publishTime)
            }
            writer.member("subscription", headers.subscription)
        }
        // Written here, so only the headers could make it unreadable.
        guard let root = try? JSONDocument(writer.bytes).root, let message = root["message"] else { throw .notAPush }
        return PushMessage(message, in: root, Evidence(writer.bytes))
    }

    private init(_ message: JSONValue, in root: JSONValue, _ evidence: Evidence) {
        self.evidence = evidence
        var fields = JSONFields(message, path: "message")
        var outer = JSONFields(root)
        var isAmbiguous = false
        let messageId = fields.twin("messageId", "message_id", &isAmbiguous)
        let publishTime = fields.twin("publishTime", "publish_time", &isAmbiguous)
        let attempt = outer.twin("deliveryAttempt", "delivery_attempt", &isAmbiguous)
        self.messageId = isAmbiguous ? nil : messageId
        self.publishTime = publishTime.flatMap { Instant(iso8601: $0) }
        subscription = outer.text("subscription")
        deliveryAttempt = attempt.flatMap { Int($0) }
        var notification: DeveloperNotification?
        if let data = fields.text("data") {
            if let bytes = Self.decode(base64: Array(data.utf8)) {
                if let document = try? JSONDocument(bytes), document.root.isObject {
                    notification = DeveloperNotification(document.root)
                } else {
                    fields.note("data", "is not a JSON object")
                }
            } else {
                fields.note("data", "is not base64")
            }
        } else {
            fields.note("data", "is missing")
        }
        self.notification = notification
        self.isAmbiguous = isAmbiguous
        defects = outer.defects + fields.defects + (notification?.defects ?? [])
    }

    /// Decodes Base64 in either alphabet, with or without padding and line breaks.
    ///
    /// - Source: Protocol Buffers, "ProtoJSON Format": readers accept both alphabets, with and without padding.
    private static func decode(base64 text: [UInt8]) -> [UInt8]? {
        if let bytes = Base64.decode(text[...], .standard) { return bytes }
        let digits = text.compactMap { byte -> UInt8? in
            switch Unicode.Scalar(byte) {
            case "+": UInt8(ascii: "-")
            case "/": UInt8(ascii: "_")
            case "=", "\n", "\r": nil
            default: byte
            }
        }
        return Base64.decode(digits[...], .url)
    }
}

extension JSONFields {
    /// The text of a field with two spellings. Notes and reports different values.
    fileprivate mutating func twin(_ key: StaticString, _ snake: StaticString, _ isAmbiguous: inout Bool) -> String? {
        let (first, second) = (text(key), text(snake))
        if let first, let second, first != second {
            note(key, "differs from \(snake)")
            isAmbiguous = true
        }
        return first ?? second
    }
}
