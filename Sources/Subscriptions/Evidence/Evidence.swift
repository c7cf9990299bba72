/// The bytes that prove an event, as pieces, so that base64 which was decoded on the way in can be stored decoded.
///
/// The bytes are those of the pieces, one after the other. The decoded pieces are ``Base64Text``, each of which
/// encodes to the text that it was decoded from: the evidence follows from either form, byte for byte.
package struct Evidence: Sendable {
    package enum Piece: Sendable {
        case bytes(ArraySlice<UInt8>)
        case base64(Base64Text)
        case jws(JWSText)
    }

    package let pieces: [Piece]

    package init(_ pieces: [Piece]) {
        self.pieces = pieces
    }

    /// Evidence with nothing decoded in it.
    package init(_ bytes: [UInt8]) {
        self.init([.bytes(bytes[...])])
    }

    /// The bytes in order, in slices.
    package var slices: [ArraySlice<UInt8>] {
        pieces.flatMap { piece -> [ArraySlice<UInt8>] in
            switch piece {
            case .bytes(let bytes): [bytes]
            case .base64(let text): [text.text]
            case .jws(let jws): jws.pieces
            }
        }
    }

    /// All bytes, copied.
    package var bytes: [UInt8] {
        let slices = slices
        var bytes: [UInt8] = []
        bytes.reserveCapacity(slices.reduce(0) { $0 + $1.count })
        for slice in slices { bytes += slice }
        return bytes
    }
}
