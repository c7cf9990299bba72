import Crypto
import Encoding
import Subscriptions

/// Writes the form of ``CompactBody``.
struct CompactBodyEncoder {
    private(set) var stored: [UInt8] = []
    private(set) var headers: [JWSHeaderText] = []
    /// Whether a part takes fewer bytes than its text.
    private(set) var isCompact = false

    /// Shorter base64 saves too little.
    private static let base64CharactersMin = 64
    /// Anything shorter has no certificate in it, and storing it under its digest would save nothing.
    private static let headerCharactersMin = 256
    private static let signatureBytes = 64

    init(capacity: Int) {
        stored.reserveCapacity(capacity)
        stored.append(CompactBody.mark)
    }

    mutating func append(_ evidence: Evidence) {
        for piece in evidence.pieces {
            switch piece {
            case .bytes(let bytes):
                appendBytes(bytes)
            case .base64(let text) where text.text.count >= Self.base64CharactersMin && text.alphabet == .standard:
                isCompact = true
                appendKind(.base64)
                appendMeasured { $0.appendBytes(text.bytes[...]) }
            case .base64(let text):
                appendBytes(text.text)
            case .jws(let jws) where isStorable(jws):
                isCompact = true
                append(jws, depth: 1)
            case .jws(let jws):
                for piece in jws.pieces { appendBytes(piece) }
            }
        }
    }

    /// Whether the form can hold it.
    private func isStorable(_ jws: JWSText) -> Bool {
        jws.header.count >= Self.headerCharactersMin && jws.signature.bytes.count == Self.signatureBytes
            && jws.payload.alphabet == .url && jws.signature.alphabet == .url
    }

    /// - Parameter depth: Of its payload.
    private mutating func append(_ jws: JWSText, depth: Int) {
        appendKind(.jws)
        stored += digest(of: jws.header)
        appendMeasured { encoder in
            let payload = jws.payload.bytes
            var copied = 0
            for (range, inner) in jws.inner where depth < CompactBody.depthMax && encoder.isStorable(inner) {
                encoder.appendBytes(payload[copied..<range.lowerBound])
                encoder.append(inner, depth: depth + 1)
                copied = range.upperBound
            }
            encoder.appendBytes(payload[copied...])
        }
        stored += jws.signature.bytes
    }

    /// Appends a length and what is appended inside, whose length is known only after it.
    private mutating func appendMeasured(_ content: (inout CompactBodyEncoder) -> Void) {
        let place = stored.count
        appendLength(0)
        content(&self)
        let length = stored.count - place - 3
        stored[place] = UInt8(truncatingIfNeeded: length >> 16)
        stored[place + 1] = UInt8(truncatingIfNeeded: length >> 8)
        stored[place + 2] = UInt8(truncatingIfNeeded: length)
    }

    private mutating func appendBytes(_ bytes: ArraySlice<UInt8>) {
        guard !bytes.isEmpty else { return }
        appendKind(.bytes)
        appendLength(bytes.count)
        stored += bytes
    }

    private mutating func appendKind(_ part: CompactBody.Part) {
        stored.append(part.rawValue)
    }

    private mutating func appendLength(_ length: Int) {
        stored.append(UInt8(truncatingIfNeeded: length >> 16))
        stored.append(UInt8(truncatingIfNeeded: length >> 8))
        stored.append(UInt8(truncatingIfNeeded: length))
    }

    private mutating func digest(of header: ArraySlice<UInt8>) -> [UInt8] {
        if let known = headers.first(where: { $0.text[...].hasSameBytes(as: header) }) { return known.digest }
        let digest = Array(SHA256.hash(data: header))
        headers.append(JWSHeaderText(digest: digest, text: Array(header)))
        return digest
    }
}
