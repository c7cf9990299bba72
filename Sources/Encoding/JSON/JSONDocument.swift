/// A parsed JSON text: its bytes and a flat list of the byte range of each value.
///
/// Parsing converts nothing. Numbers stay the digits that arrived, so 64-bit ids never pass through floating point, and
/// an unread 10 KB receipt costs one scan. Strings may hold any byte sequence; they are validated when read. The last
/// of duplicate keys in an object counts.
package final class JSONDocument: Sendable {
    package let bytes: [UInt8]
    let nodes: [Node]
    /// True if any string contains a byte that is not ASCII, so that it may be invalid UTF-8.
    package let holdsNonASCII: Bool

    /// A value, or a key of an object. Containers are followed by their content, keys by their value.
    struct Node {
        var kind: Kind
        /// True for a string that contains a backslash.
        var isEscaped = false
        /// A hash of a key without escapes, which rules out most other keys.
        private(set) var keyMark: UInt16 = 0
        /// The byte range of the value; for a string, without its quotes.
        var start: Int32
        var end: Int32
        /// Index of the first node after this value and its content.
        var next: Int32

        init(kind: Kind, isEscaped: Bool = false, start: Int32, end: Int32, next: Int32) {
            self.kind = kind
            self.isEscaped = isEscaped
            self.start = start
            self.end = end
            self.next = next
        }

        /// - Parameter text: The document's bytes.
        mutating func noteKey(_ text: UnsafeBufferPointer<UInt8>) {
            keyMark = KeyName(UnsafeBufferPointer(rebasing: text[Int(start)..<Int(end)])).mark
        }
    }

    enum Kind: UInt8 {
        case object, array, string, number, `true`, `false`, null
    }

    /// - Throws: ``JSONError`` with the offset of the first byte that is not valid JSON.
    package init(_ bytes: [UInt8]) throws(JSONError) {
        guard bytes.count <= Int(Int32.max) else { throw JSONError(offset: Int(Int32.max), problem: .tooLong) }
        var parser = JSONParser()
        try parser.parse(bytes)
        self.bytes = bytes
        self.nodes = parser.nodes
        self.holdsNonASCII = parser.sawNonASCII
    }

    package var root: JSONValue { JSONValue(document: self, index: 0) }

    /// Calls the body with every string, including keys, in document order.
    package func forEachString(_ body: (JSONValue) -> Void) {
        for index in nodes.indices where nodes[index].kind == .string {
            body(JSONValue(document: self, index: index))
        }
    }
}

package struct JSONError: Error, Hashable, CustomStringConvertible {
    package enum Problem: String, Sendable {
        case empty = "the body is empty"
        case unexpectedByte = "unexpected character"
        case unexpectedEnd = "unexpected end of text"
        case trailingBytes = "text after the JSON value"
        case controlCharacter = "control character inside a string"
        case badEscape = "unknown escape inside a string"
        case badNumber = "malformed number"
        case tooDeep = "nested deeper than 512 levels"
        case tooManyValues = "more than 500000 values and keys"
        case tooLong = "longer than 2 GiB"
    }

    package let offset: Int
    package let problem: Problem

    package var description: String { "\(problem.rawValue) at byte \(offset)" }
}

/// A value in a document. Reading it as another type returns nil.
package struct JSONValue: Sendable {
    let document: JSONDocument
    let index: Int
    /// A Bloom filter of 64 bits over the hashes of the object's keys; all ones if not computed. See ``indexed``.
    private var keys: UInt64 = .max

    init(document: JSONDocument, index: Int) {
        self.document = document
        self.index = index
    }

    private var node: JSONDocument.Node { document.nodes[index] }

    package var isObject: Bool { node.kind == .object }
    package var isEmptyObject: Bool { isObject && Int(node.next) == index + 1 }
    package var isArray: Bool { node.kind == .array }
    package var isNull: Bool { node.kind == .null }
    package var isString: Bool { node.kind == .string }
    /// True for a string that contains a backslash.
    package var isEscaped: Bool { node.isEscaped }
    /// True for an ASCII string without a backslash, as nearly all strings from Apple are.
    package var isPlainASCII: Bool { isString && !isEscaped && !document.holdsNonASCII }

    package var bool: Bool? {
        switch node.kind {
        case .true: true
        case .false: false
        default: nil
        }
    }

    /// The text of a number, as it arrived.
    package var numberText: String? {
        guard node.kind == .number else { return nil }
        return String(decoding: document.bytes[Int(node.start)..<Int(node.end)], as: UTF8.self)
    }

    package var int64: Int64? { numberText.flatMap { Int64($0) } }

    /// The value's range in the document's bytes; for a string, without quotes and with escapes unresolved.
    package var contentRange: Range<Int> { Int(node.start)..<Int(node.end) }

    /// The bytes at ``contentRange``.
    package var bytes: [UInt8] { Array(document.bytes[contentRange]) }

    /// Nil if the value is not a string, or not valid Unicode (invalid UTF-8, a lone surrogate).
    package var string: String? {
        guard isString else { return nil }
        let content = document.bytes[contentRange]
        if node.isEscaped {
            let (bytes, isUnicode) = unescapedJSONString(content)
            return isUnicode ? String(validating: bytes, as: UTF8.self) : nil
        }
        // ASCII needs no validation, and nearly everything that Apple sends is ASCII.
        if !document.holdsNonASCII {
            return document.bytes.withUnsafeBufferPointer {
                String(decoding: UnsafeBufferPointer(rebasing: $0[contentRange]), as: UTF8.self)
            }
        }
        return String(validating: content, as: UTF8.self)
    }

    /// The instant of a string in the format of ``Instant/description``.
    package var canonicalInstant: Instant? {
        let node = node
        guard node.kind == .string, !node.isEscaped else { return nil }
        return document.bytes.withUnsafeBufferPointer {
            Instant(canonical: UnsafeBufferPointer(rebasing: $0[Int(node.start)..<Int(node.end)]))
        }
    }

    /// The bytes of a string with escapes resolved and lone surrogates replaced by a replacement character.
    package var unescapedBytes: [UInt8] {
        let content = document.bytes[contentRange]
        return node.isEscaped ? unescapedJSONString(content).bytes : Array(content)
    }

    /// The value of the last member with the key.
    package subscript(key: StaticString) -> JSONValue? {
        place(of: key).map { JSONValue(document: document, index: $0) }
    }

    /// Equivalent to `self[key]?.string`, without creating a value: facts have dozens of members, and creating a value
    /// costs more than finding it.
    package func string(_ key: StaticString) -> String? {
        guard let place = place(of: key) else { return nil }
        let node = document.nodes[place]
        guard node.kind == .string, !node.isEscaped, !document.holdsNonASCII else {
            return JSONValue(document: document, index: place).string
        }
        return document.bytes.withUnsafeBufferPointer {
            String(
                decoding: UnsafeBufferPointer(rebasing: $0[Int(node.start)..<Int(node.end)]), as: UTF8.self)
        }
    }

    package func bool(_ key: StaticString) -> Bool? {
        switch place(of: key).map({ document.nodes[$0].kind }) {
        case .true: true
        case .false: false
        default: nil
        }
    }

    /// The same value with a filter that rejects most absent keys without a search. Pays off for many lookups.
    package var indexed: JSONValue {
        var indexed = self
        indexed.keys = document.nodes.withUnsafeBufferPointer { nodes in
            guard nodes[index].kind == .object else { return 0 }
            let end = Int(nodes[index].next)
            var entry = index + 1
            var keys: UInt64 = 0
            while entry < end {
                let node = nodes[entry]
                if node.isEscaped { return .max }
                keys |= Self.bit(node.keyMark)
                entry = Int(nodes[entry + 1].next)
            }
            return keys
        }
        return indexed
    }

    private static func bit(_ mark: UInt16) -> UInt64 { 1 &<< UInt64(mark) }

    /// The node index of the value of the last member with the key.
    private func place(of key: StaticString) -> Int? {
        var found: Int?
        forEachPlace(of: key) { place, _ in found = place }
        return found
    }

    /// The members with the key: the value of the last one, their number, and a bit set of their ordinals among the
    /// first 64 members of the object.
    package func entries(named key: StaticString) -> (last: JSONValue?, count: Int, bits: UInt64) {
        var last: Int?
        var count = 0
        var bits: UInt64 = 0
        forEachPlace(of: key) { place, ordinal in
            last = place
            count += 1
            if ordinal < 64 { bits |= 1 << UInt64(ordinal) }
        }
        return (last.map { JSONValue(document: document, index: $0) }, count, bits)
    }

    /// All values of the key, several if the key is repeated.
    package func values(named key: StaticString) -> [JSONValue] {
        var values: [JSONValue] = []
        forEachPlace(of: key) { place, _ in values.append(JSONValue(document: document, index: place)) }
        return values
    }

    /// Calls the body with the node index and the member's ordinal of every value of the key.
    @inline(__always)
    private func forEachPlace(of key: StaticString, _ body: (_ place: Int, _ ordinal: Int) -> Void) {
        let name = KeyName(UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        guard keys & Self.bit(name.mark) != 0 else { return }
        // Dozens of fields are looked up, so the arrays are accessed once for all members.
        document.nodes.withUnsafeBufferPointer { nodes in
            guard nodes[index].kind == .object else { return }
            document.bytes.withUnsafeBufferPointer { bytes in
                let end = Int(nodes[index].next)
                var entry = index + 1
                var ordinal = 0
                while entry < end {
                    let node = nodes[entry]
                    if node.keyMark == name.mark || node.isEscaped, Self.matches(node, name, bytes) {
                        body(entry + 1, ordinal)
                    }
                    entry = Int(nodes[entry + 1].next)
                    ordinal &+= 1
                }
            }
        }
    }

    private static func matches(
        _ keyNode: JSONDocument.Node, _ key: KeyName, _ bytes: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        let range = Int(keyNode.start)..<Int(keyNode.end)
        if keyNode.isEscaped { return unescapedJSONString(ArraySlice(bytes[range])).bytes.elementsEqual(key.bytes) }
        guard range.count == key.bytes.count else { return false }
        for offset in 0..<range.count where bytes[range.lowerBound &+ offset] != key.bytes[offset] { return false }
        return true
    }

    /// The members of an object in document order; empty for any other value.
    package var members: [(key: JSONValue, value: JSONValue)] {
        guard isObject else { return [] }
        var result: [(key: JSONValue, value: JSONValue)] = []
        let end = Int(node.next)
        var index = index + 1
        while index < end {
            result.append(
                (JSONValue(document: document, index: index), JSONValue(document: document, index: index + 1)))
            index = Int(document.nodes[index + 1].next)
        }
        return result
    }

    /// The elements of an array; empty for any other value.
    package var elements: [JSONValue] { elements(atMost: .max) }

    /// Returns at most this many elements of an array, from its start.
    package func elements(atMost limit: Int) -> [JSONValue] {
        guard isArray else { return [] }
        var result: [JSONValue] = []
        let end = Int(node.next)
        var index = index + 1
        while index < end, result.count < limit {
            result.append(JSONValue(document: document, index: index))
            index = Int(document.nodes[index].next)
        }
        return result
    }
}

/// A key to look up.
struct KeyName {
    let bytes: UnsafeBufferPointer<UInt8>
    /// A hash of the length and the bytes at both ends. Equal keys have equal marks; equal marks require a comparison.
    let mark: UInt16

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
        var mixed = UInt32(truncatingIfNeeded: bytes.count)
        if bytes.count >= 4, let start = UnsafeRawPointer(bytes.baseAddress) {
            let first = start.loadUnaligned(as: UInt32.self)
            let last = (start + (bytes.count - 4)).loadUnaligned(as: UInt32.self)
            mixed = (mixed &+ first) &* 0x9E37_79B1 ^ last &* 0x85EB_CA6B
        } else {
            for byte in bytes { mixed = mixed << 8 | UInt32(byte) }
        }
        mark = UInt16(truncatingIfNeeded: mixed >> 16 ^ mixed)
    }
}

/// Returns a JSON string's bytes with escapes resolved, and false if an escape was a lone surrogate.
private func unescapedJSONString(_ content: ArraySlice<UInt8>) -> (bytes: [UInt8], isUnicode: Bool) {
    var result: [UInt8] = []
    var isUnicode = true
    result.reserveCapacity(content.count)
    var index = content.startIndex
    while index < content.endIndex {
        let byte = content[index]
        index += 1
        guard byte == UInt8(ascii: "\\") else {
            result.append(byte)
            continue
        }
        let escape = content[index]
        index += 1
        switch escape {
        case UInt8(ascii: "b"): result.append(8)
        case UInt8(ascii: "f"): result.append(12)
        case UInt8(ascii: "n"): result.append(10)
        case UInt8(ascii: "r"): result.append(13)
        case UInt8(ascii: "t"): result.append(9)
        case UInt8(ascii: "u"):
            var code = hexadecimal(content[index..<index + 4])
            index += 4
            if code & 0xFC00 == 0xD800, index + 6 <= content.endIndex, content[index] == UInt8(ascii: "\\"),
                content[index + 1] == UInt8(ascii: "u")
            {
                let low = hexadecimal(content[index + 2..<index + 6])
                if low & 0xFC00 == 0xDC00 {
                    code = 0x10000 + (code & 0x3FF) << 10 + low & 0x3FF
                    index += 6
                }
            }
            let scalar = Unicode.Scalar(code)
            if scalar == nil { isUnicode = false }
            result.append(contentsOf: UTF8.encode(scalar ?? "\u{FFFD}") ?? .init())
        default: result.append(escape)
        }
    }
    return (result, isUnicode)
}

/// Converts four hexadecimal digits, which the parser has validated.
private func hexadecimal(_ digits: ArraySlice<UInt8>) -> UInt32 {
    digits.reduce(0) { value, digit in
        value << 4 | UInt32(digit & 15) + (digit > UInt8(ascii: "9") ? 9 : 0)
    }
}
