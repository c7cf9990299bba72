import Foundation

/// The three headers of a message, by version 1.0.0 of Standard Webhooks. HTTP header names ignore case.
public struct WebhookHeaders: Hashable, Sendable {
    public static let idName = "webhook-id"
    public static let timestampName = "webhook-timestamp"
    public static let signatureName = "webhook-signature"

    /// The same for all attempts to deliver a message, so receivers recognise a repetition by it.
    public let id: String
    /// When this attempt was made: Unix seconds, as text.
    public let timestamp: String
    /// One or more signatures, separated by spaces.
    public let signature: String

    public init(id: String, timestamp: String, signature: String) {
        self.id = id
        self.timestamp = timestamp
        self.signature = signature
    }

    /// Signs a message.
    ///
    /// - Parameters:
    ///   - id: Not empty, without a dot.
    ///   - date: When this attempt is made; rounded down to the second.
    ///   - body: Exactly as it is sent.
    ///   - keys: Each makes one signature. During a rotation, the new and the old one.
    public init(signing body: some DataProtocol, id: String, at date: Date, with keys: [SigningKey]) {
        precondition(!id.isEmpty && !id.contains("."), "the id of a message has no dot")
        precondition(!keys.isEmpty, "a message is signed with at least one key")
        self.id = id
        timestamp = String(Int64(date.timeIntervalSince1970.rounded(.down)))
        let content = Self.content(id, timestamp, body)
        signature = keys.map { $0.signature(of: content) }.joined(separator: " ")
    }

    /// The headers with their names.
    public var fields: [(name: String, value: String)] {
        [(Self.idName, id), (Self.timestampName, timestamp), (Self.signatureName, signature)]
    }

    /// The bytes that are signed.
    static func content(_ id: String, _ timestamp: String, _ body: some DataProtocol) -> Data {
        var content = Data("\(id).\(timestamp).".utf8)
        content.append(contentsOf: body)
        return content
    }
}
