package enum PercentEncoding {
    /// Encodes a text as a path segment, or a name or value of a form or query.
    ///
    /// - Source: RFC 3986, section 2.3.
    package static func encoded(_ text: String) -> String {
        var encoded = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default: encoded += "%" + Hex.text([byte]).uppercased()
            }
        }
        return encoded
    }
}
