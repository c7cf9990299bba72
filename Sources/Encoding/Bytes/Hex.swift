/// Bytes as lower-case hexadecimal digits, two per byte.
package enum Hex {
    static let digits = Array("0123456789abcdef".utf8)

    package static func text(_ bytes: [UInt8]) -> String {
        String(unsafeUninitializedCapacity: bytes.count * 2) { buffer in
            for (index, byte) in bytes.enumerated() {
                buffer[index * 2] = digits[Int(byte >> 4)]
                buffer[index * 2 + 1] = digits[Int(byte & 15)]
            }
            return bytes.count * 2
        }
    }

    /// Returns the 16 digits of a number.
    package static func text(_ number: UInt64) -> String {
        text(withUnsafeBytes(of: number.bigEndian) { Array($0) })
    }

    /// Returns nil unless the text consists of an even number of lower-case hexadecimal digits.
    ///
    /// - Parameter acceptsUpperCase: If true, upper-case digits are accepted too.
    package static func bytes(_ text: UnsafeBufferPointer<UInt8>, acceptsUpperCase: Bool = false) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        var high: UInt8?
        for byte in text {
            let value: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F") where acceptsUpperCase: value = byte - UInt8(ascii: "A") + 10
            default: return nil
            }
            if let first = high {
                bytes.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return high == nil ? bytes : nil
    }
}
