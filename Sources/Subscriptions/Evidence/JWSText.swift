import Encoding

/// A compact JWS (RFC 7515), split and decoded. Nothing in it is verified.
///
/// Its text is the header, the text of the payload and the text of the signature, with a dot before each of the last two.
package struct JWSText: Sendable {
    /// Base64url as it arrived; not decoded here, and possibly not even base64url.
    package let header: ArraySlice<UInt8>
    package let payload: Base64Text
    package let signature: Base64Text
    /// JWS inside the payload, each with its place in the bytes of the payload, in ascending order and disjoint.
    package private(set) var inner: [(range: Range<Int>, jws: JWSText)] = []

    package init(header: ArraySlice<UInt8>, payload: Base64Text, signature: Base64Text) {
        self.header = header
        self.payload = payload
        self.signature = signature
    }

    /// The pieces of the text, in order.
    package var pieces: [ArraySlice<UInt8>] { [header, Self.dot, payload.text, Self.dot, signature.text] }

    private static let dot: ArraySlice<UInt8> = [UInt8(ascii: ".")]

    package var textCount: Int { header.count + payload.text.count + signature.text.count + 2 }

    /// The same JWS with the given ones found inside its payload.
    ///
    /// - Parameter others: Decoded from slices of the payload. One whose text is not in the payload at the indices of its
    ///   slice is left out, such as one that is written with JSON escapes there.
    package func containing(_ others: [JWSText]) -> JWSText {
        var result = self
        for other in others.sorted(by: { $0.header.startIndex < $1.header.startIndex }) {
            let start = other.header.startIndex
            guard start >= result.inner.last?.range.upperBound ?? 0, other.isText(of: payload.bytes, at: start) else {
                continue
            }
            result.inner.append((start..<start + other.textCount, other))
        }
        return result
    }

    private func isText(of bytes: [UInt8], at start: Int) -> Bool {
        guard start >= 0, textCount <= bytes.count - start else { return false }
        var place = start
        return pieces.allSatisfy { piece in
            defer { place += piece.count }
            return bytes[place..<place + piece.count].hasSameBytes(as: piece)
        }
    }
}
