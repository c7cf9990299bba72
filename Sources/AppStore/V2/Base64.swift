/// Base64 as RFC 4648 defines it, and nothing besides: no white space, no characters of the other alphabet, padding
/// exactly where it belongs, unused bits zero. One sequence of bytes has one text.
enum Base64 {
    enum Alphabet {
        /// With padding: certificates.
        case standard
        /// Without padding: the segments of a JWS.
        case url
    }

    /// - Returns: Nil if the text is not of this alphabet and form.
    static func decode(_ text: ArraySlice<UInt8>, _ alphabet: Alphabet) -> [UInt8]? {
        var digits = text
        if alphabet == .standard {
            guard text.count % 4 == 0 else { return nil }
            if digits.last == UInt8(ascii: "=") { digits.removeLast() }
            if digits.last == UInt8(ascii: "=") { digits.removeLast() }
        }
        let rest = digits.count % 4
        guard rest != 1 else { return nil }
        let count = digits.count / 4 * 3 + (rest == 0 ? 0 : rest - 1)
        let values = alphabet == .standard ? standardValues : urlValues
        var isValid = true
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
            digits.withUnsafeBufferPointer { digits in
                values.withUnsafeBufferPointer { values in
                    isValid = decode(digits, values, into: output)
                }
            }
            initialized = count
        }
        return isValid ? bytes : nil
    }

    private static func decode(
        _ digits: UnsafeBufferPointer<UInt8>, _ values: UnsafeBufferPointer<UInt8>,
        into output: UnsafeMutableBufferPointer<UInt8>
    ) -> Bool {
        // Bits that no digit has collect here; looking once at the end keeps the loop short.
        var seen: UInt8 = 0
        var read = 0
        var written = 0
        while read + 4 <= digits.count {
            let first = values[Int(digits[read])]
            let second = values[Int(digits[read + 1])]
            let third = values[Int(digits[read + 2])]
            let fourth = values[Int(digits[read + 3])]
            seen |= first | second | third | fourth
            output[written] = first << 2 | second >> 4
            output[written + 1] = second << 4 | third >> 2
            output[written + 2] = third << 6 | fourth
            read += 4
            written += 3
        }
        if read < digits.count {
            let first = values[Int(digits[read])]
            let second = values[Int(digits[read + 1])]
            let third = read + 2 < digits.count ? values[Int(digits[read + 2])] : 0
            seen |= first | second | third
            output[written] = first << 2 | second >> 4
            if read + 2 < digits.count {
                output[written + 1] = second << 4 | third >> 2
                guard third & 0b11 == 0 else { return false }
            } else {
                guard second & 0b1111 == 0 else { return false }
            }
        }
        return seen < 64
    }

    private static let standardValues = values("+", "/")
    private static let urlValues = values("-", "_")

    private static func values(_ digit62: Unicode.Scalar, _ digit63: Unicode.Scalar) -> [UInt8] {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for value in UInt8(0)..<26 {
            values[Int(UInt8(ascii: "A") + value)] = value
            values[Int(UInt8(ascii: "a") + value)] = value + 26
        }
        for value in UInt8(0)..<10 { values[Int(UInt8(ascii: "0") + value)] = value + 52 }
        values[Int(UInt8(ascii: digit62))] = 62
        values[Int(UInt8(ascii: digit63))] = 63
        return values
    }
}
