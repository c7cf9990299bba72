import Crypto
import Encoding

/// Finds in a body what can be kept in fewer bytes.
struct CompactBodyEncoder {
    private(set) var stored: [UInt8] = []
    private(set) var headers: [JWSHeaderText] = []

    /// Below this a text is not worth the look.
    private static let charactersMin = 64
    /// Anything shorter has no certificate in it. The header of ``JWSHeaderText`` would save nothing.
    private static let headerCharactersMin = 256
    private static let signatureBytes = 64

    /// - Returns: Whether anything was found.
    mutating func encode(_ body: [UInt8]) -> Bool {
        stored.reserveCapacity(body.count)
        stored.append(CompactBody.mark)
        let found = appendParts(of: body, depth: 0)
        return found || body.first == CompactBody.mark
    }

    /// Goes from quote to quote. A text that is neither ends where the next one may begin, so that one quote too many
    /// does not hide the rest.
    private mutating func appendParts(of bytes: [UInt8], depth: Int) -> Bool {
        let quote = UInt8(ascii: "\"")
        var copied = 0
        var open = depth < CompactBody.depthMax ? bytes[...].firstIndex(ofByte: quote) : nil
        while let start = open, let end = bytes[(start + 1)...].firstIndex(ofByte: quote) {
            open = end
            guard end - start > Self.charactersMin, let part = part(bytes[(start + 1)..<end]) else { continue }
            appendBytes(bytes[copied...start])
            append(part, depth: depth)
            copied = end
            open = bytes[(end + 1)...].firstIndex(ofByte: quote)
        }
        appendBytes(bytes[copied...])
        return copied > 0
    }

    private enum Found {
        case base64([UInt8])
        case jws(header: ArraySlice<UInt8>, payload: [UInt8], signature: [UInt8])
    }

    private func part(_ text: ArraySlice<UInt8>) -> Found? {
        let dot = UInt8(ascii: ".")
        guard let first = text.firstIndex(ofByte: dot) else {
            return Base64.decode(text, .standard).map { .base64($0) }
        }
        guard let second = text[(first + 1)...].firstIndex(ofByte: dot),
            first - text.startIndex >= Self.headerCharactersMin,
            let signature = Base64.decode(text[(second + 1)...], .url), signature.count == Self.signatureBytes,
            let payload = Base64.decode(text[(first + 1)..<second], .url)
        else { return nil }
        return .jws(header: text[..<first], payload: payload, signature: signature)
    }

    private mutating func append(_ part: Found, depth: Int) {
        switch part {
        case .base64(let bytes):
            stored.append(CompactBody.Part.base64.rawValue)
            appendNested(bytes, depth: depth)
        case .jws(let header, let payload, let signature):
            stored.append(CompactBody.Part.jws.rawValue)
            stored += digest(of: header)
            appendNested(payload, depth: depth)
            stored += signature
        }
    }

    /// The length is known only after the parts.
    private mutating func appendNested(_ bytes: [UInt8], depth: Int) {
        let place = stored.count
        appendLength(0)
        _ = appendParts(of: bytes, depth: depth + 1)
        let length = stored.count - place - 3
        stored[place] = UInt8(truncatingIfNeeded: length >> 16)
        stored[place + 1] = UInt8(truncatingIfNeeded: length >> 8)
        stored[place + 2] = UInt8(truncatingIfNeeded: length)
    }

    private mutating func appendBytes(_ bytes: ArraySlice<UInt8>) {
        guard !bytes.isEmpty else { return }
        stored.append(CompactBody.Part.bytes.rawValue)
        appendLength(bytes.count)
        stored += bytes
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
