import AppStore
import Encoding
import EventLog
import Postgres
import Subscriptions

/// An event with everything that proves it to a third party: its body with the signatures, and what leads from it to
/// something that the operator signed.
package struct EvidenceFile: Sendable {
    package let position: Int64
    package let receivedAt: Instant
    package let event: ChainedEvent
    /// The bytes of ``ProvenEvent/evidence``.
    package let body: [UInt8]
    /// Of the first signature in the body, in DER, leaf first; empty if it is not signed.
    package let certificates: [[UInt8]]
    /// The operator's record of revocation checks of these certificates.
    package let verdicts: [CertificateVerdict]
    /// The signed responses about these certificates that were in force when the event was received, in DER. Those that
    /// the log does not have are missing.
    package let responses: [CertificateChain.Part: [UInt8]]
    package let path: Path

    /// What leads from the event to something that the operator signed.
    package enum Path: Sendable {
        /// The hash chain, to a head.
        case chain(ChainPath)
        /// The tree, to a checkpoint.
        case tree(TreeProof)
    }

    /// The stream of the head or checkpoint.
    package var stream: StreamKey {
        switch path {
        case .chain(let path): path.head.head.stream
        case .tree(let proof): proof.checkpoint.checkpoint.origin.stream
        }
    }

    /// Whether the path leads from the event to the head or checkpoint.
    package var isLed: Bool {
        switch path {
        case .chain(let path): path.leads(from: event, at: position)
        case .tree(let proof): proof.position == position && proof.proves(event.digest)
        }
    }
}

/// The hash chain from an event to a signed head.
package struct ChainPath: Sendable {
    /// Value of the hash chain before the event.
    package let start: [UInt8]
    /// Of the events after this one, up to the head, see ``ChainedEvent/digest``.
    package let digests: [[UInt8]]
    package let head: SignedHead

    func leads(from event: ChainedEvent, at position: Int64) -> Bool {
        guard position >= 1 else { return false }
        var chain = LogChain(position: position - 1, value: start)
        chain.append(event.digest)
        for digest in digests { chain.append(digest) }
        return chain.position == head.head.position && chain.value == head.head.chain
    }
}

// MARK: - JSON

extension EvidenceFile {
    /// The version of the form with a hash chain, and of that with a proof of the tree.
    private static let chainVersion: Int64 = 1
    private static let treeVersion: Int64 = 2

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("evidence", version)
            writer.key("event")
            writer.object { writer in
                writer.member("position", position)
                writer.member("receivedAt", receivedAt)
                writer.member("source", event.source)
                writer.member("dedupeKey", Hex.text(event.dedupeKey))
                writer.member("bodySha256", Hex.text(event.bodyDigest))
                writer.member("chainId", event.chainId.map { Hex.text($0) })
                writer.member("revocation", event.revocation)
            }
            writer.member("body", Base64.text(body))
            writer.key("certificates")
            writer.array(certificates) { $0.value(Base64.text($1)) }
            writer.key("verdicts")
            writer.array(verdicts) { writer, verdict in
                writer.object { writer in
                    writer.member("decidedAt", verdict.decidedAt)
                    writer.member("verdict", verdict.verdict)
                }
            }
            writer.key("ocsp")
            writer.object { writer in
                for part in CertificateChain.Part.allCases {
                    writer.member(part.key, responses[part].map { Base64.text($0) })
                }
            }
            switch path {
            case .tree(let proof): writer.member("proof", proof.encoded)
            case .chain(let path):
                writer.key("path")
                writer.object { writer in
                    writer.member("start", Hex.text(path.start))
                    writer.key("digests")
                    writer.array(path.digests) { $0.value(Hex.text($1)) }
                }
                writer.key("head")
                writer.object { path.head.writeMembers(to: &$0) }
            }
        }
    }

    private var version: Int64 {
        switch path {
        case .chain: Self.chainVersion
        case .tree: Self.treeVersion
        }
    }

    /// - Returns: Nil if a member is missing or has another form than ``write(to:)`` gives it.
    package init?(json: JSONValue) {
        guard let path = Self.path(json), let row = json["event"],
            let position = row["position"]?.int64, let receivedAt = row["receivedAt"]?.canonicalInstant,
            let source = row.string("source"), let dedupeKey = row.hex("dedupeKey"),
            let bodyDigest = row.hex("bodySha256"), let body = json["body"].flatMap(Self.base64),
            // The log's own compact form is not evidence.
            body.first != 1, let certificates = Self.list(json["certificates"], Self.base64),
            let verdicts = Self.list(json["verdicts"], CertificateVerdict.init(json:)),
            let responses = Self.responses(json["ocsp"])
        else { return nil }
        let (chainId, revocation) = (row.hex("chainId"), row.string("revocation"))
        // A member that is there must be readable.
        guard (row["chainId"] == nil) == (chainId == nil), (row["revocation"] == nil) == (revocation == nil) else {
            return nil
        }
        self.position = position
        self.receivedAt = receivedAt
        event = ChainedEvent(
            receivedAt: Timestamptz(microsecondsSinceUnixEpoch: receivedAt.milliseconds * 1000), source: source,
            dedupeKey: dedupeKey, bodyDigest: bodyDigest, chainId: chainId, revocation: revocation)
        self.body = body
        self.certificates = certificates
        self.verdicts = verdicts
        self.responses = responses
        self.path = path
    }

    private static func path(_ json: JSONValue) -> Path? {
        switch json["evidence"]?.int64 {
        case chainVersion:
            guard let path = json["path"], let start = path.hex("start"), start.count == 32,
                let digests = list(path["digests"], digest), let head = json["head"].flatMap(SignedHead.init(json:))
            else { return nil }
            return .chain(ChainPath(start: start, digests: digests, head: head))
        case treeVersion: return json.string("proof").flatMap(TreeProof.init(encoded:)).map(Path.tree)
        default: return nil
        }
    }

    private static func base64(_ value: JSONValue) -> [UInt8]? {
        value.isString ? Base64.decode(value.unescapedBytes[...], .standard) : nil
    }

    /// Earlier releases wrote no responses.
    private static func responses(_ value: JSONValue?) -> [CertificateChain.Part: [UInt8]]? {
        guard let value else { return [:] }
        guard value.isObject else { return nil }
        var responses: [CertificateChain.Part: [UInt8]] = [:]
        for part in CertificateChain.Part.allCases {
            guard let member = value[part.key] else { continue }
            guard let bytes = base64(member) else { return nil }
            responses[part] = bytes
        }
        return responses
    }

    private static func digest(_ value: JSONValue) -> [UInt8]? {
        guard value.isString else { return nil }
        let bytes = value.unescapedBytes.withUnsafeBufferPointer { Hex.bytes($0) }
        return bytes?.count == 32 ? bytes : nil
    }

    /// Nil if the value is not an array, or one of its elements is nil.
    private static func list<Element>(_ value: JSONValue?, _ read: (JSONValue) -> Element?) -> [Element]? {
        guard let value, value.isArray else { return nil }
        let elements = value.elements
        let all = elements.compactMap(read)
        return all.count == elements.count ? all : nil
    }
}

extension CertificateVerdict {
    fileprivate init?(json: JSONValue) {
        guard let decidedAt = json["decidedAt"]?.canonicalInstant, let verdict = json.string("verdict") else {
            return nil
        }
        self.init(decidedAt: decidedAt, verdict: verdict)
    }
}

extension CertificateChain.Part {
    fileprivate var key: StaticString {
        switch self {
        case .leaf: "leaf"
        case .intermediate: "intermediate"
        }
    }
}
