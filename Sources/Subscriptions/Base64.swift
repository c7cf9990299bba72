/// Base64 as RFC 4648 defines it, and nothing besides: no white space, no characters of the other alphabet, padding
/// exactly where it belongs, unused bits zero. One sequence of bytes has one text.
package enum Base64 {
    package enum Alphabet: Sendable {
        /// With padding: certificates.
        case standard
        /// Without padding: the segments of a JWS.
        case url
    }

    /// - Returns: Nil if the text is not of this alphabet and form.
    package static func decode(_ text: ArraySlice<UInt8>, _ alphabet: Alphabet) -> [UInt8]? {
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

    /// Appends the one text of the bytes.
    package static func append(_ bytes: ArraySlice<UInt8>, _ alphabet: Alphabet, to text: inout [UInt8]) {
        let rest = bytes.count % 3
        let isPadded = alphabet == .standard
        let count = bytes.count / 3 * 4 + (rest == 0 ? 0 : isPadded ? 4 : rest + 1)
        let digits = isPadded ? standardDigits : urlDigits
        text += [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
            bytes.withUnsafeBufferPointer { bytes in
                digits.withUnsafeBufferPointer { digits in
                    encode(bytes, digits, isPadded: isPadded, into: output)
                }
            }
            initialized = count
        }
    }

    private static func encode(
        _ bytes: UnsafeBufferPointer<UInt8>, _ digits: UnsafeBufferPointer<UInt8>, isPadded: Bool,
        into output: UnsafeMutableBufferPointer<UInt8>
    ) {
        var read = 0
        var written = 0
        while read + 3 <= bytes.count {
            let first = bytes[read]
            let second = bytes[read + 1]
            let third = bytes[read + 2]
            output[written] = digits[Int(first >> 2)]
            output[written + 1] = digits[Int((first & 0b11) << 4 | second >> 4)]
            output[written + 2] = digits[Int((second & 0b1111) << 2 | third >> 6)]
            output[written + 3] = digits[Int(third & 0b11_1111)]
            read += 3
            written += 4
        }
        guard read < bytes.count else { return }
        let first = bytes[read]
        let second = read + 1 < bytes.count ? bytes[read + 1] : 0
        output[written] = digits[Int(first >> 2)]
        output[written + 1] = digits[Int((first & 0b11) << 4 | second >> 4)]
        written += 2
        if read + 1 < bytes.count {
            output[written] = digits[Int((second & 0b1111) << 2)]
            written += 1
        }
        guard isPadded else { return }
        for place in written..<output.count { output[place] = UInt8(ascii: "=") }
    }

    private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)
    private static let standardDigits = letters + [UInt8(ascii: "+"), UInt8(ascii: "/")]
    private static let urlDigits = letters + [UInt8(ascii: "-"), UInt8(ascii: "_")]

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
