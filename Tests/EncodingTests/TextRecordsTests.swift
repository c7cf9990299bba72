import Encoding
import Testing

@Suite("A text is split into records, however it is read")
struct TextRecordsTests {
    /// - Parameter pieceBytes: How much of the text is read at once.
    private func records(_ text: String, pieceBytes: Int, hasQuotes: Bool = true) throws -> [String] {
        var rest = Array(text.utf8)[...]
        var records = try TextRecords(bytesCount: nil) {
            let piece = rest.prefix(pieceBytes)
            rest = rest.dropFirst(pieceBytes)
            return Array(piece)
        }
        records.hasQuotes = hasQuotes
        var found: [String] = []
        while let record = try records.next() {
            found.append("\(record.line) \(String(decoding: record.bytes, as: UTF8.self))")
        }
        return found
    }

    @Test("quoted fields have commas, line ends and doubled quotes", arguments: 1...12)
    func quoted(pieceBytes: Int) throws {
        let text = "a,b\r\n\"1,\n\"\"2\"\"\",3\r\n\n4;\"5\n6\"\t\"7\n\"\"\"\nä,\"\"\n8"

        let found = try records(text, pieceBytes: pieceBytes)

        #expect(
            found == [
                "1 a,b\r\n", "2 \"1,\n\"\"2\"\"\",3\r\n", "5 4;\"5\n6\"\t\"7\n\"\"\"\n", "8 ä,\"\"\n", "9 8",
            ])
    }

    @Test("a quote inside an unquoted field does not swallow the lines after it")
    func stray() throws {
        let found = try records("a,b\n5\" pipe,1\n2,3\"\"\n\"4\"x\",5\n6,\"7\"\n", pieceBytes: 100)

        #expect(found == ["1 a,b\n", "2 5\" pipe,1\n", "3 2,3\"\"\n", "4 \"4\"x\",5\n", "5 6,\"7\"\n"])
        for line in found.dropFirst().dropLast() {
            #expect(throws: CSVRecords.Malformed.self) { try CSVRecords.read(Array(line.dropFirst(2).utf8)) }
        }
    }

    @Test("an unterminated field is reported with the line on which it begins", arguments: [1, 100])
    func unterminated(pieceBytes: Int) {
        let error = #expect(throws: CSVRecords.Malformed.self) {
            try records("a,b\n\"1\n2\",\"3\n4\n", pieceBytes: pieceBytes)
        }

        #expect(error?.line == 3)
        #expect(error?.problem == "unterminated quoted field")
    }

    @Test("where nothing is quoted, quotes are characters like others")
    func unquoted() throws {
        let found = try records("a\tb\n\"1\t2\n3\t4\"\n", pieceBytes: 100, hasQuotes: false)

        #expect(found == ["1 a\tb\n", "2 \"1\t2\n", "3 3\t4\"\n"])
        let read = try CSVRecords.read(
            Array("\"1\t2\"\"\r\n".utf8), separatedBy: UInt8(ascii: "\t"), hasQuotes: false, from: 7)
        #expect(read.map(\.line) == [7])
        #expect(read.map(\.fields) == [["\"1", "2\"\""]])
        let error = #expect(throws: CSVRecords.Malformed.self) {
            try CSVRecords.read([0x31, 0x2C, 0xFF], from: 7)
        }
        #expect(error?.line == 7)
    }
}
