import Encoding

/// A text in canonical base64, with the bytes that it encodes.
///
/// Only decoding makes one, and ``Base64`` decodes exactly one text to each sequence of bytes. So encoding the bytes
/// gives the text again, and a place that has the bytes does not need the text.
package struct Base64Text: Sendable {
    package let text: ArraySlice<UInt8>
    package let alphabet: Base64.Alphabet
    package let bytes: [UInt8]

    /// - Returns: Nil if the text is not canonical base64 in this alphabet.
    package init?(_ text: ArraySlice<UInt8>, _ alphabet: Base64.Alphabet) {
        guard let bytes = Base64.decode(text, alphabet) else { return nil }
        self.text = text
        self.alphabet = alphabet
        self.bytes = bytes
    }
}
