/// Strict Base64 of RFC 4648: no white space, no characters of the other alphabet, padding exactly where required,
/// unused bits zero. Every byte sequence has exactly one encoding.
package enum Base64 {
    package enum Alphabet: Sendable {
        /// With padding; used by certificates.
        case standard
        /// Without padding; used by the segments of a JWS.
        case url
    }

    /// - Returns: Nil if the text is not valid in this alphabet.
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
        _ digits: UnsafeBufferPointer<UInt8>, _ values: UnsafeBufferPointer<UInt32>,
        into output: UnsafeMutableBufferPointer<UInt8>
    ) -> Bool {
        // Accumulates the error bits of all digits; a single check at the end keeps the loop short.
        var seen: UInt32 = 0
        var read = 0
        var written = 0
        while read + 4 <= digits.count {
            let value =
                values[Int(digits[read])] | values[256 + Int(digits[read + 1])] | values[512 + Int(digits[read + 2])]
                | values[768 + Int(digits[read + 3])]
            seen |= value
            output[written] = UInt8(truncatingIfNeeded: value >> 16)
            output[written + 1] = UInt8(truncatingIfNeeded: value >> 8)
            output[written + 2] = UInt8(truncatingIfNeeded: value)
            read += 4
            written += 3
        }
        if read < digits.count {
            var value = values[Int(digits[read])] | values[256 + Int(digits[read + 1])]
            output[written] = UInt8(truncatingIfNeeded: value >> 16)
            if read + 2 < digits.count {
                value |= values[512 + Int(digits[read + 2])]
                output[written + 1] = UInt8(truncatingIfNeeded: value >> 8)
                guard value & 0xFF == 0 else { return false }
            } else {
                guard value & 0xFFFF == 0 else { return false }
            }
            seen |= value
        }
        return seen <= 0xFF_FFFF
    }

    /// Returns the encoding of the bytes in the standard alphabet.
    package static func text(_ bytes: [UInt8]) -> String { text(bytes, .standard) }

    /// Returns the encoding of the bytes.
    package static func text(_ bytes: [UInt8], _ alphabet: Alphabet) -> String {
        var text: [UInt8] = []
        append(bytes[...], alphabet, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends the encoding of the bytes.
    package static func append(_ bytes: ArraySlice<UInt8>, _ alphabet: Alphabet, to text: inout [UInt8]) {
        let rest = bytes.count % 3
        let isPadded = alphabet == .standard
        let count = bytes.count / 3 * 4 + (rest == 0 ? 0 : isPadded ? 4 : rest + 1)
        let pairs = isPadded ? standardPairs : urlPairs
        text += [UInt8](unsafeUninitializedCapacity: count) { output, initialized in
            bytes.withUnsafeBufferPointer { bytes in
                pairs.withUnsafeBufferPointer { pairs in
                    encode(bytes, pairs, isPadded: isPadded, into: output)
                }
            }
            initialized = count
        }
    }

    /// - Parameter pairs: The two digits for each 12-bit value, the first one in the lower byte.
    private static func encode(
        _ bytes: UnsafeBufferPointer<UInt8>, _ pairs: UnsafeBufferPointer<UInt16>, isPadded: Bool,
        into output: UnsafeMutableBufferPointer<UInt8>
    ) {
        let text = UnsafeMutableRawBufferPointer(output)
        var read = 0
        var written = 0
        while read + 3 <= bytes.count {
            let value = Int(bytes[read]) << 16 | Int(bytes[read + 1]) << 8 | Int(bytes[read + 2])
            text.storeBytes(of: pairs[value >> 12], toByteOffset: written, as: UInt16.self)
            text.storeBytes(of: pairs[value & 0xFFF], toByteOffset: written + 2, as: UInt16.self)
            read += 3
            written += 4
        }
        guard read < bytes.count else { return }
        let second = read + 1 < bytes.count ? Int(bytes[read + 1]) : 0
        let value = Int(bytes[read]) << 16 | second << 8
        text.storeBytes(of: pairs[value >> 12], toByteOffset: written, as: UInt16.self)
        written += 2
        if read + 1 < bytes.count {
            output[written] = UInt8(truncatingIfNeeded: UInt16(littleEndian: pairs[value & 0xFFF]))
            written += 1
        }
        guard isPadded else { return }
        for place in written..<output.count { output[place] = UInt8(ascii: "=") }
    }

    private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)
    private static let standardDigits = letters + [UInt8(ascii: "+"), UInt8(ascii: "/")]
    private static let urlDigits = letters + [UInt8(ascii: "-"), UInt8(ascii: "_")]

    private static let standardPairs = pairs(standardDigits)
    private static let urlPairs = pairs(urlDigits)
    private static let standardValues = values(standardDigits)
    private static let urlValues = values(urlDigits)

    private static func pairs(_ digits: [UInt8]) -> [UInt16] {
        (0..<4096).map { (UInt16(digits[$0 >> 6]) | UInt16(digits[$0 & 63]) << 8).littleEndian }
    }

    /// The value of each byte as the first, second, third and fourth digit of a group; bit 24 is set where the byte is
    /// not a digit.
    private static func values(_ digits: [UInt8]) -> [UInt32] {
        var values = [UInt32](repeating: 1 << 24, count: 1024)
        for place in 0..<4 {
            for (value, digit) in digits.enumerated() {
                values[place * 256 + Int(digit)] = UInt32(value) << UInt32(18 - 6 * place)
            }
        }
        return values
    }
}
