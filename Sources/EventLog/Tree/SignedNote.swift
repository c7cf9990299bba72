import Crypto
import Encoding

/// A text with signatures of one or more keys.
///
/// - Source: C2SP, signed-note v1.0.0.
package struct SignedNote: Sendable, Hashable {
    /// Ends with a newline.
    package let text: String
    package private(set) var signatures: [Signature]

    package struct Signature: Sendable, Hashable {
        package let name: String
        /// 4 bytes.
        let keyId: [UInt8]
        let bytes: [UInt8]
    }

    /// - Precondition: The text ends with a newline, and has no other control characters.
    package init(text: String, signatures: [Signature]) {
        precondition(text.utf8.last == UInt8(ascii: "\n"), "the text of a note ends with a newline")
        self.text = text
        self.signatures = signatures
    }

    /// Adds signatures of others, without those that the note has.
    package mutating func add(_ others: [Signature]) {
        for signature in others where !signatures.contains(signature) { signatures.append(signature) }
    }

    /// The note in its form for files and answers.
    package var encoded: String { "\(text)\n\(Self.lines(of: signatures))" }

    private static func lines(of signatures: [Signature]) -> String {
        signatures.map { "— \($0.name) \(Base64.text($0.keyId + $0.bytes))\n" }.joined()
    }

    /// - Returns: Nil if it is malformed, or has no or too many signatures.
    package init?(encoded: String) {
        let bytes = Array(encoded.utf8)
        guard bytes.count <= Limits.noteBytesMax, bytes.allSatisfy({ $0 >= 0x20 || $0 == UInt8(ascii: "\n") }),
            let end = encoded.range(of: "\n\n", backwards: true)
        else { return nil }
        let text = String(encoded[..<end.lowerBound]) + "\n"
        guard let signatures = Self.signatures(inLines: String(encoded[end.upperBound...])) else { return nil }
        self.init(text: text, signatures: signatures)
    }

    /// The signatures of lines, as a note ends with them and as a witness answers.
    ///
    /// - Returns: Nil if a line is malformed, or there are none or too many.
    package static func signatures(inLines text: String) -> [Signature]? {
        guard text.utf8.last == UInt8(ascii: "\n") else { return nil }
        let lines = text.unicodeScalars.dropLast().split(separator: "\n", omittingEmptySubsequences: false)
        guard 1...Limits.noteSignaturesMax ~= lines.count else { return nil }
        var signatures: [Signature] = []
        for line in lines {
            let parts = line.split(separator: " ", omittingEmptySubsequences: false)
            guard parts.count == 3, String(parts[0]) == "—", NoteKey.isName(String(parts[1])),
                let bytes = Base64.decode(Array(String(parts[2]).utf8)[...], .standard), bytes.count > 4
            else { return nil }
            signatures.append(
                Signature(name: String(parts[1]), keyId: Array(bytes.prefix(4)), bytes: Array(bytes.dropFirst(4))))
        }
        return signatures
    }

    /// Whether the key signed the note. False too if it also has a bad signature of the key.
    package func isSigned(by key: NoteKey) -> Bool {
        let own = signatures.filter { key.isOf($0) }
        return !own.isEmpty && own.allSatisfy { key.isSignature($0.bytes, of: text) }
    }

    /// The time of a key's cosignature, by the clock of the witness; nil if the key did not cosign the note.
    package func cosignatureTime(of key: NoteKey) -> Instant? {
        guard key.kind == .cosignature, isSigned(by: key),
            let seconds = signatures.first(where: { key.isOf($0) }).flatMap({ NoteKey.timestamp(of: $0.bytes) })
        else { return nil }
        let (milliseconds, isTooLarge) = seconds.multipliedReportingOverflow(by: 1000)
        return isTooLarge ? nil : Instant(milliseconds: milliseconds)
    }
}

extension String {
    fileprivate func range(of text: String, backwards: Bool) -> Range<String.Index>? {
        let (bytes, wanted) = (Array(utf8), Array(text.utf8))
        guard bytes.count >= wanted.count else { return nil }
        for start in stride(from: bytes.count - wanted.count, through: 0, by: -1)
        where bytes[start..<start + wanted.count].elementsEqual(wanted) {
            let first = utf8.index(utf8.startIndex, offsetBy: start)
            return first..<utf8.index(first, offsetBy: wanted.count)
        }
        return nil
    }
}

/// A public key with the name under which it signs notes.
package struct NoteKey: Sendable {
    /// How the key signs, with the byte that identifies it.
    package enum Kind: UInt8, Sendable {
        /// Signs the text. C2SP, signed-note v1.0.0.
        case signature = 1
        /// Signs a checkpoint with a time. C2SP, tlog-cosignature v1.0.1.
        case cosignature = 4
    }

    package let name: String
    package let key: HeadPublicKey
    package let kind: Kind
    /// 4 bytes.
    let id: [UInt8]

    /// - Precondition: The name has no spaces and no plus sign.
    package init(name: String, key: HeadPublicKey, kind: Kind = .signature) {
        precondition(Self.isName(name), "a name without spaces and plus signs")
        self.name = name
        self.key = key
        self.kind = kind
        id = Array(SHA256.hash(data: Array(name.utf8) + [0x0A, kind.rawValue] + key.bytes).prefix(4))
    }

    /// - Parameter text: Name, id in hexadecimal digits and key in base64, with plus signs between them.
    /// - Returns: Nil for anything else, and for a key of another kind.
    package init?(text: String) {
        let parts = text.split(separator: "+", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, Self.isName(String(parts[0])),
            let bytes = Base64.decode(Array(String(parts[2]).utf8)[...], .standard), bytes.count == 33,
            let kind = Kind(rawValue: bytes[0]),
            let key = HeadPublicKey(hexadecimal: Hex.text(Array(bytes.dropFirst())))
        else { return nil }
        self.init(name: String(parts[0]), key: key, kind: kind)
        guard parts[1] == Hex.text(id) else { return nil }
    }

    /// The form in which verifiers are configured with the key.
    package var text: String { "\(name)+\(Hex.text(id))+\(Base64.text([kind.rawValue] + key.bytes))" }

    /// Whether a signature claims to be of this key.
    package func isOf(_ signature: SignedNote.Signature) -> Bool {
        signature.name == name && signature.keyId == id
    }

    static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.unicodeScalars.allSatisfy { !$0.properties.isWhitespace && $0 != "+" && $0.value >= 0x20 }
    }

    fileprivate func isSignature(_ signature: [UInt8], of text: String) -> Bool {
        switch kind {
        case .signature: return key.isSignature(signature, of: Array(text.utf8))
        case .cosignature:
            guard signature.count == 72, let time = Self.timestamp(of: signature) else { return false }
            return key.isSignature(Array(signature.dropFirst(8)), of: Self.cosigned(text, at: time))
        }
    }

    /// The time in a cosignature, in seconds since 1970.
    fileprivate static func timestamp(of signature: [UInt8]) -> Int64? {
        Int64(exactly: signature.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// What a cosignature signs.
    fileprivate static func cosigned(_ text: String, at time: Int64) -> [UInt8] {
        Array("cosignature/v1\ntime \(time)\n\(text)".utf8)
    }
}

extension HeadKey {
    /// Signs the text of a note under a name.
    package func sign(note text: String, as name: String) throws -> SignedNote.Signature {
        let key = NoteKey(name: name, key: publicKey)
        return SignedNote.Signature(name: name, keyId: key.id, bytes: try signature(of: Array(text.utf8)))
    }

    /// Cosigns the text of a checkpoint under a name, as a witness does.
    ///
    /// - Parameter time: In seconds since 1970.
    package func cosign(_ text: String, as name: String, at time: Int64) throws -> SignedNote.Signature {
        let key = NoteKey(name: name, key: publicKey, kind: .cosignature)
        let timestamp = withUnsafeBytes(of: time.bigEndian) { Array($0) }
        return SignedNote.Signature(
            name: name, keyId: key.id, bytes: timestamp + (try signature(of: NoteKey.cosigned(text, at: time))))
    }
}
