/// A parsed JSON text: its bytes, and a flat list of where each value stands in them.
///
/// Nothing is converted on parsing. Numbers stay the digits that arrived, so 64-bit ids never pass through floating
/// point, and a 10 KB receipt that nobody asks for costs one scan. Strings may hold any byte sequence; they are
/// checked when they are read. Of equal keys in one object the last one counts.
package final class JSONDocument: Sendable {
    package let bytes: [UInt8]
    let nodes: [Node]
    /// Some byte outside strings' escapes is not ASCII, so that the text may be invalid UTF-8.
    package let holdsNonASCII: Bool

    /// One value, or one key of an object. Containers are followed by their content; keys by their value.
    struct Node {
        var kind: Kind
        /// A string with at least one backslash.
        var isEscaped = false
        /// Of a key without escapes: tells most other keys apart at a glance.
        private(set) var keyMark: UInt16 = 0
        /// Bytes of the value; of a string, without its quotes.
        var start: Int32
        var end: Int32
        /// Index of the first node behind this value and all that it contains.
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

    /// - Throws: ``JSONError``, with the byte at which the text stops being JSON.
    package init(_ bytes: [UInt8]) throws(JSONError) {
        guard bytes.count <= Int(Int32.max) else { throw JSONError(offset: Int(Int32.max), problem: .tooLong) }
        var parser = JSONParser()
        try parser.parse(bytes)
        self.bytes = bytes
        self.nodes = parser.nodes
        self.holdsNonASCII = parser.sawNonASCII
    }

    package var root: JSONValue { JSONValue(document: self, index: 0) }

    /// Calls for every string, keys included, in the order of the text.
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
        case unexpectedEnd = "the text ends too early"
        case trailingBytes = "more text behind the end"
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

/// A value inside a document. Reading it as what it is not gives nil.
package struct JSONValue: Sendable {
    let document: JSONDocument
    let index: Int
    /// One bit for each of 64 kinds of keys: clear where no entry is of that kind. See ``indexed``.
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
    /// A string with at least one backslash.
    package var isEscaped: Bool { node.isEscaped }
    /// A string of ASCII without a backslash, as nearly everything is that Apple sends.
    package var isPlainASCII: Bool { isString && !isEscaped && !document.holdsNonASCII }

    package var bool: Bool? {
        switch node.kind {
        case .true: true
        case .false: false
        default: nil
        }
    }

    /// The digits of a number, as they arrived.
    package var numberText: String? {
        guard node.kind == .number else { return nil }
        return String(decoding: document.bytes[Int(node.start)..<Int(node.end)], as: UTF8.self)
    }

    package var int64: Int64? { numberText.flatMap { Int64($0) } }

    /// Where the value stands in the document's bytes; a string without its quotes, escapes not resolved.
    package var contentRange: Range<Int> { Int(node.start)..<Int(node.end) }

    /// The bytes at ``contentRange``.
    package var bytes: [UInt8] { Array(document.bytes[contentRange]) }

    /// Nil if it is no string, or no Unicode text (invalid UTF-8, a lone surrogate).
    package var string: String? {
        guard isString else { return nil }
        let content = document.bytes[contentRange]
        if node.isEscaped {
            let (bytes, isUnicode) = unescapedJSONString(content)
            return isUnicode ? String(validating: bytes, as: UTF8.self) : nil
        }
        // ASCII needs no check, and nearly everything that Apple sends is ASCII.
        if !document.holdsNonASCII {
            return document.bytes.withUnsafeBufferPointer {
                String(decoding: UnsafeBufferPointer(rebasing: $0[contentRange]), as: UTF8.self)
            }
        }
        return String(validating: content, as: UTF8.self)
    }

    /// The instant that a string states in the form of ``Instant/description``.
    var canonicalInstant: Instant? {
        let node = node
        guard node.kind == .string, !node.isEscaped else { return nil }
        return document.bytes.withUnsafeBufferPointer {
            Instant(canonical: UnsafeBufferPointer(rebasing: $0[Int(node.start)..<Int(node.end)]))
        }
    }

    /// The bytes of a string with its escapes resolved, half surrogates as a replacement character.
    package var unescapedBytes: [UInt8] {
        let content = document.bytes[contentRange]
        return node.isEscaped ? unescapedJSONString(content).bytes : Array(content)
    }

    /// The value of the last entry so named.
    package subscript(key: StaticString) -> JSONValue? {
        place(of: key).map { JSONValue(document: document, index: $0) }
    }

    /// As `self[key]?.string`, and so on: facts are read by the dozen, and a value of its own for each costs more than
    /// looking for it.
    func string(_ key: StaticString) -> String? {
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

    func bool(_ key: StaticString) -> Bool? {
        switch place(of: key).map({ document.nodes[$0].kind }) {
        case .true: true
        case .false: false
        default: nil
        }
    }

    /// The same value, in which keys that are absent are found to be so at a glance. Pays where many are looked for.
    var indexed: JSONValue {
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

    /// Where the value of the last entry so named stands among the nodes.
    private func place(of key: StaticString) -> Int? {
        var found: Int?
        forEachPlace(of: key) { place, _ in found = place }
        return found
    }

    /// The entries so named: the value of the last one, how many they are, and one bit for each of the first 64 entries
    /// of the object that is among them.
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

    /// Every value that stands under the key, more than one where the key is repeated.
    package func values(named key: StaticString) -> [JSONValue] {
        var values: [JSONValue] = []
        forEachPlace(of: key) { place, _ in values.append(JSONValue(document: document, index: place)) }
        return values
    }

    /// Calls for every value that stands under the key, by its index among the nodes, with the number of its entry in the
    /// object.
    @inline(__always)
    private func forEachPlace(of key: StaticString, _ body: (_ place: Int, _ ordinal: Int) -> Void) {
        let name = KeyName(UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        guard keys & Self.bit(name.mark) != 0 else { return }
        // Fields are looked up by the dozen, so the arrays are opened once for all entries.
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

    /// The entries of an object in the order of the text; none of anything else.
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

    /// The elements of an array; none of anything else.
    package var elements: [JSONValue] { elements(atMost: .max) }

    /// The first elements of an array.
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

/// A key as it is looked for.
struct KeyName {
    let bytes: UnsafeBufferPointer<UInt8>
    /// Of the length and of the bytes at both ends. Equal keys have equal marks; the reverse is left to comparing.
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

/// The bytes of a JSON string's content with its escapes resolved, and whether none of them was half a surrogate.
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

/// The parser has checked that these are four hexadecimal digits.
private func hexadecimal(_ digits: ArraySlice<UInt8>) -> UInt32 {
    digits.reduce(0) { value, digit in
        value << 4 | UInt32(digit & 15) + (digit > UInt8(ascii: "9") ? 9 : 0)
    }
}
