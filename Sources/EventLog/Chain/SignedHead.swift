import Encoding
import Subscriptions

/// A head of a stream, signed by the operator's key: at that time, the log of the stream was this.
package struct SignedHead: Sendable, Hashable {
    package let head: StreamHead
    package let signedAt: Instant
    /// Ed25519, 32 bytes. It proves nothing by itself, since a forger writes another one: see ``isSigned(byOneOf:)``.
    package let publicKey: [UInt8]
    /// 64 bytes.
    package let signature: [UInt8]

    init(head: StreamHead, signedAt: Instant, publicKey: [UInt8], signature: [UInt8]) {
        self.head = head
        self.signedAt = signedAt
        self.publicKey = publicKey
        self.signature = signature
    }

    /// The bytes that are signed.
    static func signedBytes(_ head: StreamHead, at time: Instant) -> [UInt8] {
        var fields = ChainFields("subledger head 1")
        fields.append(head.stream.app)
        fields.append(head.stream.environment.rawValue)
        fields.append(head.position)
        fields.append(head.chain)
        fields.append(time.milliseconds)
        return fields.bytes
    }

    /// Whether one of the keys signed the head.
    package func isSigned(byOneOf keys: [HeadPublicKey]) -> Bool {
        keys.contains { key in
            key.bytes == publicKey && key.isSignature(signature, of: Self.signedBytes(head, at: signedAt))
        }
    }
}

// MARK: - JSON

extension SignedHead {
    package func writeMembers(to writer: inout JSONWriter) {
        head.writeMembers(to: &writer)
        writer.member("signedAt", signedAt)
        writer.member("publicKey", Hex.text(publicKey))
        writer.member("signature", Hex.text(signature))
    }

    /// - Returns: Nil if a member is missing or has another form than ``writeMembers(to:)`` gives it.
    package init?(json: JSONValue) {
        guard let head = StreamHead(json: json), let signedAt = json["signedAt"]?.canonicalInstant,
            let publicKey = json.hex("publicKey"), publicKey.count == 32,
            let signature = json.hex("signature"), signature.count == 64
        else { return nil }
        self.init(head: head, signedAt: signedAt, publicKey: publicKey, signature: signature)
    }

    /// The heads in a file: one JSON object, or several with white space between them, as `subledger head` prints them.
    ///
    /// - Returns: Nil if the file has none, or one that is malformed.
    package static func heads(inLines bytes: [UInt8]) -> [SignedHead]? {
        let lines = bytes.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") })
        var heads: [SignedHead] = []
        for line in lines where !line.allSatisfy({ $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }) {
            guard let document = try? JSONDocument(Array(line)), let head = SignedHead(json: document.root) else {
                return nil
            }
            heads.append(head)
        }
        return heads.isEmpty ? nil : heads
    }
}

extension StreamHead {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("app", stream.app)
        writer.member("environment", stream.environment.rawValue)
        writer.member("position", position)
        writer.member("chain", Hex.text(chain))
    }

    init?(json: JSONValue) {
        guard let app = json.string("app"), let name = json.string("environment"),
            let environment = Environment(rawValue: name), let position = json["position"]?.int64, position >= 0,
            let chain = json.hex("chain"), chain.count == 32
        else { return nil }
        self.init(stream: StreamKey(app: app, environment: environment), position: position, chain: chain)
    }
}

extension JSONValue {
    /// The bytes of a member that contains lower-case hexadecimal digits; nil if it does not.
    package func hex(_ key: StaticString) -> [UInt8]? {
        guard let value = self[key], value.isString else { return nil }
        return value.unescapedBytes.withUnsafeBufferPointer { Hex.bytes($0) }
    }
}
