/// Validates a JSON text against RFC 8259 and records the byte ranges of its values.
///
/// Uses a loop with an explicit stack, since the sender controls the nesting depth.
struct JSONParser {
    private(set) var nodes: [JSONDocument.Node] = []
    private(set) var sawNonASCII = false

    private static let depthMax = 512
    /// Apple's largest bodies contain about ten thousand values. Each takes 16 bytes before the sender is
    /// authenticated.
    private static let valuesMax = 500_000

    private enum Expectation {
        case value, valueOrEnd, key, keyOrEnd, separatorOrEnd
    }

    mutating func parse(_ text: [UInt8]) throws(JSONError) {
        nodes.reserveCapacity(text.count / 64 + 16)
        var failure: JSONError?
        text.withUnsafeBufferPointer { bytes in
            do throws(JSONError) { try parse(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    private mutating func parse(_ bytes: UnsafeBufferPointer<UInt8>) throws(JSONError) {
        var open: [Int] = []
        var expectation = Expectation.value
        // A byte order mark is not JSON, but some senders add it, and ignoring it is harmless.
        var offset = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        skipWhitespace(bytes, &offset)
        guard offset < bytes.count else { throw JSONError(offset: offset, problem: .empty) }
        while true {
            skipWhitespace(bytes, &offset)
            guard offset < bytes.count else { throw JSONError(offset: offset, problem: .unexpectedEnd) }
            let byte = bytes[offset]
            switch (expectation, byte) {
            case (.value, UInt8(ascii: "{")), (.valueOrEnd, UInt8(ascii: "{")):
                try push(.object, at: &offset, &open)
                expectation = .keyOrEnd
                continue
            case (.value, UInt8(ascii: "[")), (.valueOrEnd, UInt8(ascii: "[")):
                try push(.array, at: &offset, &open)
                expectation = .valueOrEnd
                continue
            case (.valueOrEnd, UInt8(ascii: "]")), (.keyOrEnd, UInt8(ascii: "}")):
                pop(&open, &offset)
            case (.value, _), (.valueOrEnd, _):
                try scanScalar(bytes, &offset)
            case (.key, UInt8(ascii: "\"")), (.keyOrEnd, UInt8(ascii: "\"")):
                try scanString(bytes, &offset)
                nodes[nodes.count - 1].noteKey(bytes)
                skipWhitespace(bytes, &offset)
                guard offset < bytes.count else { throw JSONError(offset: offset, problem: .unexpectedEnd) }
                guard bytes[offset] == UInt8(ascii: ":") else {
                    throw JSONError(offset: offset, problem: .unexpectedByte)
                }
                offset += 1
                expectation = .value
                continue
            case (.separatorOrEnd, UInt8(ascii: ",")):
                offset += 1
                expectation = isObject(open) ? .key : .value
                continue
            case (.separatorOrEnd, UInt8(ascii: "}")) where isObject(open),
                (.separatorOrEnd, UInt8(ascii: "]")) where !isObject(open):
                pop(&open, &offset)
            default:
                throw JSONError(offset: offset, problem: .unexpectedByte)
            }
            // A value has just ended.
            if open.isEmpty { break }
            expectation = .separatorOrEnd
        }
        skipWhitespace(bytes, &offset)
        guard offset == bytes.count else { throw JSONError(offset: offset, problem: .trailingBytes) }
    }

    private func isObject(_ open: [Int]) -> Bool {
        open.last.map { nodes[$0].kind == .object } ?? false
    }

    private mutating func push(_ kind: JSONDocument.Kind, at offset: inout Int, _ open: inout [Int]) throws(JSONError) {
        guard open.count < Self.depthMax else { throw JSONError(offset: offset, problem: .tooDeep) }
        open.append(nodes.count)
        try append(.init(kind: kind, start: Int32(offset), end: 0, next: 0))
        offset += 1
    }

    private mutating func pop(_ open: inout [Int], _ offset: inout Int) {
        offset += 1
        let container = open.removeLast()
        nodes[container].end = Int32(offset)
        nodes[container].next = Int32(nodes.count)
    }

    private mutating func append(_ node: JSONDocument.Node) throws(JSONError) {
        guard nodes.count < Self.valuesMax else { throw JSONError(offset: Int(node.start), problem: .tooManyValues) }
        nodes.append(node)
    }

    private mutating func append(
        _ kind: JSONDocument.Kind, _ range: Range<Int>, isEscaped: Bool = false
    ) throws(JSONError) {
        try append(
            .init(
                kind: kind, isEscaped: isEscaped, start: Int32(range.lowerBound), end: Int32(range.upperBound),
                next: Int32(nodes.count + 1)))
    }

    private func skipWhitespace(_ bytes: UnsafeBufferPointer<UInt8>, _ offset: inout Int) {
        while offset < bytes.count {
            switch bytes[offset] {
            case 0x20, 0x0A, 0x0D, 0x09: offset += 1
            default: return
            }
        }
    }

    private mutating func scanScalar(_ bytes: UnsafeBufferPointer<UInt8>, _ offset: inout Int) throws(JSONError) {
        switch bytes[offset] {
        case UInt8(ascii: "\""): try scanString(bytes, &offset)
        case UInt8(ascii: "t"): try scanLiteral("true", .true, bytes, &offset)
        case UInt8(ascii: "f"): try scanLiteral("false", .false, bytes, &offset)
        case UInt8(ascii: "n"): try scanLiteral("null", .null, bytes, &offset)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): try scanNumber(bytes, &offset)
        default: throw JSONError(offset: offset, problem: .unexpectedByte)
        }
    }

    private mutating func scanLiteral(
        _ literal: StaticString, _ kind: JSONDocument.Kind, _ bytes: UnsafeBufferPointer<UInt8>, _ offset: inout Int
    ) throws(JSONError) {
        let end = offset + literal.utf8CodeUnitCount
        guard end <= bytes.count else { throw JSONError(offset: bytes.count, problem: .unexpectedEnd) }
        for index in 0..<literal.utf8CodeUnitCount where bytes[offset + index] != literal.utf8Start[index] {
            throw JSONError(offset: offset + index, problem: .unexpectedByte)
        }
        try append(kind, offset..<end)
        offset = end
    }

    private mutating func scanNumber(_ bytes: UnsafeBufferPointer<UInt8>, _ offset: inout Int) throws(JSONError) {
        let start = offset
        var index = offset
        func skipDigits() -> Bool {
            let first = index
            while index < bytes.count, bytes[index] &- UInt8(ascii: "0") < 10 { index += 1 }
            return index > first
        }
        func take(_ scalars: Unicode.Scalar...) -> Bool {
            guard index < bytes.count, scalars.contains(where: { UInt8(ascii: $0) == bytes[index] }) else {
                return false
            }
            index += 1
            return true
        }
        _ = take("-")
        if !take("0") {
            guard skipDigits() else { throw JSONError(offset: index, problem: .badNumber) }
        }
        if take(".") {
            guard skipDigits() else { throw JSONError(offset: index, problem: .badNumber) }
        }
        if take("e", "E") {
            _ = take("+", "-")
            guard skipDigits() else { throw JSONError(offset: index, problem: .badNumber) }
        }
        try append(.number, start..<index)
        offset = index
    }

    /// Base64 receipts are nearly all of a body, so the scan checks 32 bytes per step, then 8.
    private mutating func scanString(_ bytes: UnsafeBufferPointer<UInt8>, _ offset: inout Int) throws(JSONError) {
        let start = offset + 1
        var index = start
        var isEscaped = false
        while true {
            index = Self.endOfPlainBytes(bytes, from: index)
            guard index < bytes.count else { throw JSONError(offset: index, problem: .unexpectedEnd) }
            let byte = bytes[index]
            if byte == UInt8(ascii: "\"") { break }
            if byte == UInt8(ascii: "\\") {
                isEscaped = true
                try skipEscape(bytes, &index)
                continue
            }
            guard byte >= 0x20 else { throw JSONError(offset: index, problem: .controlCharacter) }
            if byte >= 0x80 { sawNonASCII = true }
            index += 1
        }
        try append(.string, start..<index, isEscaped: isEscaped)
        offset = index + 1
    }

    /// Returns the first index that may hold a quote, a backslash, a control character or a non-ASCII byte. Near the
    /// end of the text the caller must check every byte.
    private static func endOfPlainBytes(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        guard let base = UnsafeRawPointer(bytes.baseAddress) else { return start }
        func marks(_ index: Int) -> UInt64 {
            specialBytes(UInt64(littleEndian: (base + index).loadUnaligned(as: UInt64.self)))
        }
        var index = start
        while index &+ 32 <= bytes.count {
            guard marks(index) | marks(index &+ 8) | marks(index &+ 16) | marks(index &+ 24) == 0 else { break }
            index &+= 32
        }
        while index &+ 8 <= bytes.count {
            let found = marks(index)
            if found != 0 { return index &+ found.trailingZeroBitCount / 8 }
            index &+= 8
        }
        return index
    }

    /// Sets the top bit of each byte that is a quote, a backslash, a control character or not ASCII. A borrow can also
    /// mark bytes above such a byte, so only the lowest mark is valid.
    @inline(__always)
    private static func specialBytes(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
        let backslash = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
        let below = (word &- ones &* 0x20) | (quote &- ones) | (backslash &- ones)
        return (below | word) & (ones &* 0x80)
    }

    private func skipEscape(_ bytes: UnsafeBufferPointer<UInt8>, _ index: inout Int) throws(JSONError) {
        guard index + 1 < bytes.count else { throw JSONError(offset: bytes.count, problem: .unexpectedEnd) }
        switch bytes[index + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            index += 2
        case UInt8(ascii: "u"):
            for digit in index + 2..<index + 6 {
                guard digit < bytes.count else { throw JSONError(offset: bytes.count, problem: .unexpectedEnd) }
                switch bytes[digit] {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                    UInt8(ascii: "A")...UInt8(ascii: "F"):
                    continue
                default: throw JSONError(offset: digit, problem: .badEscape)
                }
            }
            index += 6
        default:
            throw JSONError(offset: index + 1, problem: .badEscape)
        }
    }
}
