/// Reads CSV as defined by RFC 4180: fields are separated by commas, or by another character; those with it, quotes
/// (doubled) or line breaks are quoted. Lines end with LF or CRLF; empty lines are skipped.
package struct CSVRecords {
    package struct Record {
        /// The number of its first line, from 1.
        package let line: Int
        package let fields: [String]

        package init(line: Int, fields: [String]) {
            self.line = line
            self.fields = fields
        }
    }

    package struct Malformed: Error {
        package let line: Int
        package let problem: String

        package init(line: Int, problem: String) {
            self.line = line
            self.problem = problem
        }
    }

    private let bytes: [UInt8]
    private let separator: UInt8
    private let hasQuotes: Bool
    private var index: Int
    private var line: Int

    /// Reads all records.
    ///
    /// - Parameters:
    ///   - separator: A character of ASCII, between fields.
    ///   - hasQuotes: Whether fields may be quoted. If not, quotes are characters like others.
    ///   - line: The number of the first line.
    /// - Throws: ``Malformed`` with the line of the first error.
    package static func read(
        _ bytes: [UInt8], separatedBy separator: UInt8 = UInt8(ascii: ","), hasQuotes: Bool = true, from line: Int = 1
    ) throws(Malformed) -> [Record] {
        var reader = CSVRecords(bytes, separator, hasQuotes, line)
        var records: [Record] = []
        while let record = try reader.next() { records.append(record) }
        return records
    }

    private init(_ bytes: [UInt8], _ separator: UInt8, _ hasQuotes: Bool, _ line: Int) {
        self.bytes = bytes
        self.separator = separator
        self.hasQuotes = hasQuotes
        self.line = line
        // Spreadsheets write a byte order mark before UTF-8.
        index = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
    }

    private mutating func next() throws(Malformed) -> Record? {
        while skipLineEnd() {}
        guard index < bytes.count else { return nil }
        let start = line
        var fields = [try field()]
        while index < bytes.count, !skipLineEnd() {
            guard bytes[index] == separator else {
                throw Malformed(line: line, problem: "text after a closing quote: expected a comma or line end")
            }
            index += 1
            fields.append(try field())
        }
        return Record(line: start, fields: fields)
    }

    private mutating func field() throws(Malformed) -> String {
        let start = line
        let isQuoted = hasQuotes && index < bytes.count && bytes[index] == UInt8(ascii: "\"")
        let content = isQuoted ? try quoted() : try plain()
        guard let text = String(validating: content, as: UTF8.self) else {
            throw Malformed(line: start, problem: "field is not valid UTF-8")
        }
        return text
    }

    private mutating func plain() throws(Malformed) -> ArraySlice<UInt8> {
        let start = index
        while index < bytes.count, bytes[index] != separator, !isAtLineEnd {
            guard !hasQuotes || bytes[index] != UInt8(ascii: "\"") else {
                throw Malformed(line: line, problem: "quote inside an unquoted field")
            }
            index += 1
        }
        return bytes[start..<index]
    }

    private mutating func quoted() throws(Malformed) -> ArraySlice<UInt8> {
        let start = line
        var content: [UInt8] = []
        index += 1
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            if byte == UInt8(ascii: "\"") {
                guard index < bytes.count, bytes[index] == UInt8(ascii: "\"") else { return content[...] }
                index += 1
            }
            if byte == UInt8(ascii: "\n") { line += 1 }
            content.append(byte)
        }
        throw Malformed(line: start, problem: "unterminated quoted field")
    }

    private var isAtLineEnd: Bool {
        bytes[index] == UInt8(ascii: "\n")
            || (bytes[index] == UInt8(ascii: "\r")
                && (index + 1 == bytes.count || bytes[index + 1] == UInt8(ascii: "\n")))
    }

    private mutating func skipLineEnd() -> Bool {
        guard index < bytes.count, isAtLineEnd else { return false }
        if bytes[index] == UInt8(ascii: "\r") { index += 1 }
        if index < bytes.count, bytes[index] == UInt8(ascii: "\n") { index += 1 }
        line += 1
        return true
    }
}

extension CSVRecords {
    /// The content of a field without the spaces and tabs around it.
    package static func trimmed(_ text: String) -> String {
        func isSpace(_ scalar: Unicode.Scalar) -> Bool {
            scalar == "\t" || scalar == " "
                || !scalar.isASCII && scalar.properties.generalCategory == .spaceSeparator
        }
        guard let first = text.unicodeScalars.first, let last = text.unicodeScalars.last,
            isSpace(first) || isSpace(last)
        else { return text }
        var rest = text.unicodeScalars.drop(while: isSpace)
        while let last = rest.last, isSpace(last) { rest.removeLast() }
        return String(Substring(rest))
    }

    /// What files of other kinds begin with, which would give a strange error as text.
    package static func problem(_ bytes: some Sequence<UInt8>) -> String? {
        let bytes = Array(bytes.prefix(4))
        if bytes.starts(with: [0x50, 0x4B, 0x03, 0x04]) { return "is a ZIP archive: unpack it first" }
        if bytes.starts(with: [0x1F, 0x8B]) { return "is compressed by gzip: unpack it first" }
        if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) {
            return "is UTF-16: save it as UTF-8"
        }
        return nil
    }
}
