/// Splits a text into records, so that memory use does not depend on its size: the lines of JSON lines, or the records of
/// CSV, whose quoted fields may contain line ends.
package struct TextRecords {
    /// Bytes of a record, with the number of its first line, from 1.
    package struct Record {
        package let line: Int
        package let bytes: [UInt8]
    }

    package enum Format {
        case csv
        case jsonLines
    }

    /// The text is not one of UTF-8.
    package struct OtherFormat: Error {
        package let problem: String
    }

    /// A receipt of many years has a few megabytes. An unterminated quote must not read the rest of the text.
    private static let recordBytesMax = 8 << 20

    /// Nil if the text is empty.
    package let format: Format?
    /// Nil if it is not known.
    package let bytesCount: Int64?
    /// Bytes before the next record.
    package private(set) var offset: Int64 = 0
    /// Whether quoted fields of CSV may contain line ends. May change between two records.
    package var hasQuotes = true
    private let read: () throws -> [UInt8]
    private var chunk: [UInt8] = []
    private var index = 0
    private var line = 1

    /// - Parameter read: Returns the next part of the text; nothing at its end.
    /// - Throws: ``OtherFormat``, and what `read` throws.
    package init(bytesCount: Int64?, read: @escaping () throws -> [UInt8]) throws {
        self.bytesCount = bytesCount
        self.read = read
        chunk = try read()
        if let problem = CSVRecords.problem(chunk) { throw OtherFormat(problem: problem) }
        // Spreadsheets write a byte order mark before UTF-8.
        if chunk.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
        let first = chunk[index...].first { !Self.isSpace($0) }
        format = first.map { $0 == UInt8(ascii: "{") ? .jsonLines : .csv }
    }

    /// - Parameter text: All of it.
    package init(text: [UInt8]) throws {
        var parts = [text]
        try self.init(bytesCount: Int64(text.count)) { parts.popLast() ?? [] }
    }

    /// The next record that is not empty; nil at the end.
    /// - Throws: ``CSVRecords/Malformed``, and what reading throws.
    package mutating func next() throws -> Record? {
        while true {
            let start = line
            guard let bytes = try bytes(startingAt: start) else { return nil }
            offset += Int64(bytes.count)
            if !bytes.allSatisfy(Self.isSpace) { return Record(line: start, bytes: bytes) }
        }
    }

    /// Where the next byte of a record stands.
    private enum Place {
        case fieldStart
        case unquoted
        case quoted
        /// After a quote that ends the field, or is the first of two that stand for one.
        case afterQuote
    }

    /// The bytes up to the next line end that is not quoted, with it. A quote inside an unquoted field quotes nothing, so
    /// that it is an error of its own record alone.
    private mutating func bytes(startingAt start: Int) throws -> [UInt8]? {
        var bytes: [UInt8] = []
        let mayQuote = format != .jsonLines && hasQuotes
        var place = Place.fieldStart
        var quotedFrom = start
        while true {
            if index == chunk.count {
                chunk = try read()
                index = 0
                if chunk.isEmpty {
                    guard place != .quoted else { throw malformed(quotedFrom, "unterminated quoted field") }
                    return bytes.isEmpty ? nil : bytes
                }
            }
            let from = index
            var isEnd = false
            while index < chunk.count, !isEnd {
                switch chunk[index] {
                case UInt8(ascii: "\n"):
                    line += 1
                    isEnd = place != .quoted
                case UInt8(ascii: "\"") where mayQuote && place != .unquoted:
                    if place == .fieldStart { quotedFrom = line }
                    place = place == .quoted ? .afterQuote : .quoted
                case UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t"):
                    if place != .quoted { place = .fieldStart }
                default: if place != .quoted { place = .unquoted }
                }
                index += 1
            }
            bytes += chunk[from..<index]
            if isEnd { return bytes }
            guard bytes.count <= Self.recordBytesMax else {
                throw malformed(start, "record is longer than \(Self.recordBytesMax) bytes: is a quote missing?")
            }
        }
    }

    private func malformed(_ line: Int, _ problem: String) -> CSVRecords.Malformed {
        CSVRecords.Malformed(line: line, problem: problem)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
}
