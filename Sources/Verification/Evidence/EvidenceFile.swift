import AppStore
import Encoding
import EventLog
import Postgres
import Subscriptions

/// An event with everything that proves it to a third party: its body with the signatures, and the hash chain from it
/// to a signed head.
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
    /// Value of the hash chain before the event.
    package let start: [UInt8]
    /// Of the events after this one, up to the head, see ``ChainedEvent/digest``.
    package let digests: [[UInt8]]
    package let head: SignedHead

    /// Whether the chain leads from the event to the head.
    package var leadsToHead: Bool {
        guard position >= 1 else { return false }
        var chain = LogChain(position: position - 1, value: start)
        chain.append(event.digest)
        for digest in digests { chain.append(digest) }
        return chain.position == head.head.position && chain.value == head.head.chain
    }
}

// MARK: - JSON

extension EvidenceFile {
    /// The version of the form.
    private static let version: Int64 = 1

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("evidence", Self.version)
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
            writer.key("path")
            writer.object { writer in
                writer.member("start", Hex.text(start))
                writer.key("digests")
                writer.array(digests) { $0.value(Hex.text($1)) }
            }
            writer.key("head")
            writer.object { head.writeMembers(to: &$0) }
        }
    }

    /// - Returns: Nil if a member is missing or has another form than ``write(to:)`` gives it.
    package init?(json: JSONValue) {
        guard json["evidence"]?.int64 == Self.version, let row = json["event"],
            let position = row["position"]?.int64, let receivedAt = row["receivedAt"]?.canonicalInstant,
            let source = row.string("source"), let dedupeKey = row.hex("dedupeKey"),
            let bodyDigest = row.hex("bodySha256"), let body = json["body"].flatMap(Self.base64),
            // The log's own compact form is not evidence.
            body.first != 1, let certificates = Self.list(json["certificates"], Self.base64),
            let verdicts = Self.list(json["verdicts"], CertificateVerdict.init(json:)), let path = json["path"],
            let start = path.hex("start"), start.count == 32,
            let responses = Self.responses(json["ocsp"]), let digests = Self.list(path["digests"], Self.digest),
            let head = json["head"].flatMap(SignedHead.init(json:))
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
        self.start = start
        self.digests = digests
        self.head = head
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
