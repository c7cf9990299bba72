import Encoding
import Subscriptions

/// The name of a stream's tree: `subledger/<installation>/<app>/<environment>`.
///
/// Whatever is not a letter, a digit or one of `-._~` is percent-encoded in it, so it has no spaces and no plus sign.
package struct CheckpointOrigin: Sendable, Hashable {
    package let installation: String
    package let stream: StreamKey

    package init(installation: String, stream: StreamKey) {
        self.installation = installation
        self.stream = stream
    }

    package var text: String {
        let names = [installation, stream.app].map(PercentEncoding.encoded).joined(separator: "/")
        return "subledger/\(names)/\(stream.environment.rawValue)"
    }

    /// - Returns: Nil if it is no origin of Subledger.
    package init?(text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "subledger", let installation = Self.decoded(parts[1]),
            let app = Self.decoded(parts[2]), let environment = Environment(rawValue: String(parts[3]))
        else { return nil }
        self.init(installation: installation, stream: StreamKey(app: app, environment: environment))
        // There is one way to write an origin.
        guard self.text == text else { return nil }
    }

    private static func decoded(_ text: Substring) -> String? {
        guard !text.isEmpty else { return nil }
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2)
            rest = rest.dropFirst(2)
            guard
                let value = Array(digits).withUnsafeBufferPointer({ Hex.bytes($0, acceptsUpperCase: true) }),
                value.count == 1
            else { return nil }
            bytes += value
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// Size and root of a stream's tree.
///
/// - Source: C2SP, tlog-checkpoint v1.0.0.
package struct TreeCheckpoint: Sendable, Hashable {
    package let origin: CheckpointOrigin
    /// The number of events: those at positions 1 to this one.
    package let size: Int64
    /// 32 bytes.
    package let root: [UInt8]

    package init(origin: CheckpointOrigin, size: Int64, root: [UInt8]) {
        self.origin = origin
        self.size = size
        self.root = root
    }

    /// The text that is signed.
    package var text: String { "\(origin.text)\n\(size)\n\(Base64.text(root))\n" }

    /// - Returns: Nil if it is malformed, names no origin of Subledger, or has extension lines, of which Subledger writes
    ///   none.
    package init?(text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count == 4, lines[3].isEmpty, let origin = CheckpointOrigin(text: String(lines[0])),
            let size = DecimalText.number(lines[1]), let root = Base64.hash(lines[2])
        else { return nil }
        self.init(origin: origin, size: size, root: root)
    }
}

/// A checkpoint with its signatures.
package struct SignedCheckpoint: Sendable, Hashable {
    package let checkpoint: TreeCheckpoint
    package let note: SignedNote

    /// - Returns: Nil if it is no note with a checkpoint of Subledger.
    package init?(encoded: String) {
        guard let note = SignedNote(encoded: encoded) else { return nil }
        self.init(note: note)
    }

    init?(note: SignedNote) {
        guard let checkpoint = TreeCheckpoint(text: note.text) else { return nil }
        self.checkpoint = checkpoint
        self.note = note
    }

    /// Whether one of the keys signed it, under the name of its origin.
    package func isSigned(byOneOf keys: [HeadPublicKey]) -> Bool {
        keys.contains { note.isSigned(by: NoteKey(name: checkpoint.origin.text, key: $0)) }
    }

    /// The same checkpoint with further signatures.
    package func with(_ signatures: [SignedNote.Signature]) -> SignedCheckpoint {
        var copy = note
        copy.add(signatures)
        return SignedCheckpoint(checkpoint, copy)
    }

    private init(_ checkpoint: TreeCheckpoint, _ note: SignedNote) {
        self.checkpoint = checkpoint
        self.note = note
    }
}

extension HeadKey {
    /// Signs a checkpoint. Call it only for one that is proven to extend the last one, see ``CheckpointSigner``.
    package func sign(_ checkpoint: TreeCheckpoint) throws -> SignedCheckpoint {
        let text = checkpoint.text
        let signature = try sign(note: text, as: checkpoint.origin.text)
        guard let signed = SignedCheckpoint(note: SignedNote(text: text, signatures: [signature])) else {
            preconditionFailure("the text of a checkpoint can be read again")
        }
        return signed
    }
}

/// Numbers of checkpoints and proofs: decimal digits, without leading zeros.
enum DecimalText {
    static func number(_ text: some StringProtocol) -> Int64? {
        guard let number = Int64(text), number >= 0, "\(number)" == text else { return nil }
        return number
    }
}

extension Base64 {
    /// The 32 bytes of a line of a checkpoint or proof.
    static func hash(_ text: some StringProtocol) -> [UInt8]? {
        guard let bytes = decode(Array(text.utf8)[...], .standard), bytes.count == 32 else { return nil }
        return bytes
    }
}
