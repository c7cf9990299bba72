import Crypto
import Glibc
import Subscriptions

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
        var copied = 0
        var open = depth < CompactBody.depthMax ? nextQuote(in: bytes, from: 0) : nil
        while let start = open, let end = nextQuote(in: bytes, from: start + 1) {
            open = end
            guard end - start > Self.charactersMin, let part = part(bytes[(start + 1)..<end]) else { continue }
            appendBytes(bytes[copied...start])
            append(part, depth: depth)
            copied = end
            open = nextQuote(in: bytes, from: end + 1)
        }
        appendBytes(bytes[copied...])
        return copied > 0
    }

    private enum Found {
        case base64([UInt8])
        case jws(header: ArraySlice<UInt8>, payload: [UInt8], signature: [UInt8])
    }

    private func part(_ text: ArraySlice<UInt8>) -> Found? {
        guard let first = firstIndex(of: UInt8(ascii: "."), in: text) else {
            return Base64.decode(text, .standard).map { .base64($0) }
        }
        guard let second = firstIndex(of: UInt8(ascii: "."), in: text[(first + 1)...]),
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
        if let known = headers.first(where: { isEqual($0.text[...], header) }) { return known.digest }
        let digest = Array(SHA256.hash(data: header))
        headers.append(JWSHeaderText(digest: digest, text: Array(header)))
        return digest
    }
}

/// Of bytes by the thousand, where going from one to the next takes as long as all the rest.
func isEqual(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Bool {
    left.count == right.count
        && left.withUnsafeBytes { left in
            right.withUnsafeBytes { right in
                guard let start = left.baseAddress, let other = right.baseAddress else { return true }
                return memcmp(start, other, left.count) == 0
            }
        }
}

private func nextQuote(in bytes: [UInt8], from start: Int) -> Int? {
    firstIndex(of: UInt8(ascii: "\""), in: bytes[start...])
}

private func firstIndex(of byte: UInt8, in bytes: ArraySlice<UInt8>) -> Int? {
    bytes.withUnsafeBytes { buffer in
        guard let start = buffer.baseAddress, let found = memchr(start, Int32(byte), buffer.count) else { return nil }
        return bytes.startIndex + (UnsafeRawPointer(found) - start)
    }
}
