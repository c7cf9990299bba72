/// Writes JSON text incrementally, in the form in which facts are stored, printed and served.
///
/// Absent values are omitted: members with a nil value write nothing.
@usableFromInline
package struct JSONWriter {
    package private(set) var bytes: [UInt8] = []
    private var needsComma = false

    package init() {}

    /// - Parameter bytesExpected: Approximate length of the text, for reserving memory.
    package init(bytesExpected: Int) {
        bytes.reserveCapacity(bytesExpected)
    }

    package var text: String { String(decoding: bytes, as: UTF8.self) }

    package mutating func object(_ content: (inout JSONWriter) throws -> Void) rethrows {
        try container("{", "}", content)
    }

    @inlinable
    package mutating func array<Element>(
        _ elements: some Sequence<Element>, _ write: (inout JSONWriter, Element) throws -> Void
    ) rethrows {
        try container("[", "]") { writer in
            for element in elements { try write(&writer, element) }
        }
    }

    @usableFromInline
    mutating func container(
        _ start: Unicode.Scalar, _ end: Unicode.Scalar, _ content: (inout JSONWriter) throws -> Void
    ) rethrows {
        separate()
        bytes.append(UInt8(ascii: start))
        needsComma = false
        try content(&self)
        bytes.append(UInt8(ascii: end))
        needsComma = true
    }

    @usableFromInline
    package mutating func key(_ key: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a key that is known only at run time.
    package mutating func key(_ key: String) {
        value(key)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    package mutating func value(_ text: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        let isPlain =
            text.utf8.withContiguousStorageIfAvailable { utf8 in
                guard utf8.allSatisfy(Self.isPlain) else { return false }
                bytes.append(contentsOf: utf8)
                return true
            } ?? false
        if !isPlain { appendEscaping(text) }
        bytes.append(UInt8(ascii: "\""))
    }

    /// True if a byte needs no escape in a string.
    @inline(__always)
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\") && byte != 0x7F
    }

    private mutating func appendEscaping(_ text: String) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0..<0x20, 0x7F:
                bytes.append(contentsOf: Array("\\u00".utf8))
                bytes.append(Hex.digits[Int(byte >> 4)])
                bytes.append(Hex.digits[Int(byte & 15)])
            default: bytes.append(byte)
            }
        }
    }

    @inlinable
    package mutating func value(_ number: some BinaryInteger) {
        value(rawJSON: String(number))
    }

    package mutating func value(_ flag: Bool) {
        separate()
        bytes.append(contentsOf: (flag ? "true" : "false").utf8)
    }

    package mutating func value(_ instant: Instant) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: 24))
        bytes.withUnsafeMutableBufferPointer { buffer in
            instant.writeISO8601(to: UnsafeMutableBufferPointer(rebasing: buffer[start..<start + 24]))
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes a value that is already JSON text.
    package mutating func value(rawJSON: [UInt8]) {
        separate()
        bytes.append(contentsOf: rawJSON)
    }

    /// Writes a value that is already JSON text.
    @usableFromInline
    package mutating func value(rawJSON text: String) {
        separate()
        bytes.append(contentsOf: text.utf8)
    }

    package mutating func member(_ key: StaticString, _ value: String?) {
        guard let value else { return }
        self.key(key)
        self.value(value)
    }

    @inlinable
    package mutating func member(_ key: StaticString, _ value: (some BinaryInteger)?) {
        guard let value else { return }
        self.key(key)
        self.value(value)
    }

    package mutating func member(_ key: StaticString, _ value: Bool?) {
        guard let value else { return }
        self.key(key)
        self.value(value)
    }

    package mutating func member(_ key: StaticString, _ value: Instant?) {
        guard let value else { return }
        self.key(key)
        self.value(value)
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }
}
