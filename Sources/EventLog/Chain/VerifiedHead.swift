import Encoding
import Subscriptions

/// A place in the log of a stream with everything that the verification of later events needs of earlier ones.
package struct VerifiedPlace: Sendable, Hashable {
    package let head: StreamHead
    /// The tree of the events up to there.
    package let tree: TreeFrontier

    package init(head: StreamHead, tree: TreeFrontier) {
        self.head = head
        self.tree = tree
    }
}

/// A place up to which every event of a stream was verified, signed by the operator's key: the next verification goes on
/// there.
///
/// A signed head says less, that the log was so, and must not pass for this one: the signed bytes begin differently.
///
/// Source: scale, "verify and rebuild in hours".
package struct VerifiedHead: Sendable, Hashable {
    package let place: VerifiedPlace
    /// SHA-256 of the root certificates that signatures had to lead to.
    package let roots: [UInt8]
    /// The release that verified the last events.
    package let release: String
    package let verifiedAt: Instant
    private let signature: [UInt8]

    package init(
        _ place: VerifiedPlace, roots: [UInt8], release: String, at time: Instant, signedBy key: HeadKey
    ) throws {
        let signature = try key.signature(of: Self.signedBytes(place, roots, release, time))
        self.init(place: place, roots: roots, release: release, verifiedAt: time, signature: signature)
    }

    private init(
        place: VerifiedPlace, roots: [UInt8], release: String, verifiedAt: Instant, signature: [UInt8]
    ) {
        self.place = place
        self.roots = roots
        self.release = release
        self.verifiedAt = verifiedAt
        self.signature = signature
    }

    package func isSigned(by key: HeadPublicKey) -> Bool {
        key.isSignature(signature, of: Self.signedBytes(place, roots, release, verifiedAt))
    }

    private static func signedBytes(
        _ place: VerifiedPlace, _ roots: [UInt8], _ release: String, _ time: Instant
    ) -> [UInt8] {
        var fields = ChainFields("subledger verified 1")
        fields.append(place.head.stream.app)
        fields.append(place.head.stream.environment.rawValue)
        fields.append(place.head.position)
        fields.append(place.head.chain)
        fields.append(Array(place.tree.roots.joined()))
        fields.append(roots)
        fields.append(release)
        fields.append(time.milliseconds)
        return fields.bytes
    }
}

// MARK: - JSON

extension VerifiedHead {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            place.head.writeMembers(to: &writer)
            writer.key("tree")
            writer.array(place.tree.roots) { $0.value(Hex.text($1)) }
            writer.member("roots", Hex.text(roots))
            writer.member("release", release)
            writer.member("verifiedAt", verifiedAt)
            writer.member("signature", Hex.text(signature))
        }
    }

    /// - Returns: Nil if a member is missing or has another form than ``write(to:)`` gives it.
    private init?(json: JSONValue) {
        guard let head = StreamHead(json: json), let roots = json.hex("roots"), roots.count == 32,
            let release = json.string("release"), let verifiedAt = json["verifiedAt"]?.canonicalInstant,
            let signature = json.hex("signature"), signature.count == 64, let tree = json["tree"], tree.isArray
        else { return nil }
        let hashes = tree.elements.compactMap { element -> [UInt8]? in
            element.string.flatMap { Array($0.utf8).withUnsafeBufferPointer { Hex.bytes($0) } }
        }
        guard let frontier = TreeFrontier(size: head.position, roots: hashes) else { return nil }
        self.init(
            place: VerifiedPlace(head: head, tree: frontier), roots: roots, release: release, verifiedAt: verifiedAt,
            signature: signature)
    }

    /// Those in a file with a JSON object in each line.
    ///
    /// - Returns: Nil if a line is malformed.
    package static func heads(inLines bytes: [UInt8]) -> [VerifiedHead]? {
        var heads: [VerifiedHead] = []
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            guard let document = try? JSONDocument(Array(line)), let head = VerifiedHead(json: document.root) else {
                return nil
            }
            heads.append(head)
        }
        return heads
    }
}
