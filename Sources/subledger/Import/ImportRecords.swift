import Foundation
import Server

/// Reads a file record by record, so that memory use does not depend on its size: the lines of JSON lines, or the records
/// of CSV, whose quoted fields may contain line ends.
struct ImportRecords {
    /// Bytes of a record, with the number of its first line, from 1.
    struct Record {
        let line: Int
        let bytes: [UInt8]
    }

    enum Format {
        case csv
        case jsonLines
    }

    private enum Limits {
        static let chunkBytes = 1 << 20
        /// A receipt of many years has a few megabytes. An unterminated quote must not read the rest of the file.
        static let recordBytesMax = 8 << 20
    }

    /// Nil if the file is empty.
    let format: Format?
    /// Nil for standard input.
    let bytesCount: Int64?
    /// Bytes before the next record.
    private(set) var offset: Int64 = 0
    private let name: String
    private let handle: FileHandle
    private var chunk: [UInt8] = []
    private var index = 0
    private var line = 1

    /// - Parameter name: A path, or - for standard input.
    init(_ name: String) throws {
        self.name = name
        guard let handle = name == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: name) else {
            throw CSVFile.Malformed(description: "\(name): \(InputFile.unreadable)")
        }
        self.handle = handle
        let attributes = name == "-" ? nil : try? FileManager.default.attributesOfItem(atPath: name)
        bytesCount = (attributes?[.size] as? NSNumber)?.int64Value
        chunk = try handle.read(upToCount: Limits.chunkBytes).map { Array($0) } ?? []
        if let problem = CSVFile.problem(chunk) { throw CSVFile.Malformed(description: "\(name): \(problem)") }
        // Spreadsheets write a byte order mark before UTF-8.
        if chunk.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
        let first = chunk[index...].first { !Self.isSpace($0) }
        format = first.map { $0 == UInt8(ascii: "{") ? .jsonLines : .csv }
    }

    /// The next record that is not empty; nil at the end.
    mutating func next() throws -> Record? {
        while true {
            let start = line
            guard let bytes = try read(startingAt: start) else { return nil }
            offset += Int64(bytes.count)
            if !bytes.allSatisfy(Self.isSpace) { return Record(line: start, bytes: bytes) }
        }
    }

    /// The bytes up to the next line end that is not quoted, with it.
    private mutating func read(startingAt start: Int) throws -> [UInt8]? {
        var bytes: [UInt8] = []
        var isQuoted = false
        while true {
            if index == chunk.count {
                chunk = try handle.read(upToCount: Limits.chunkBytes).map { Array($0) } ?? []
                index = 0
                if chunk.isEmpty {
                    guard !isQuoted else { throw malformed(start, "unterminated quoted field") }
                    return bytes.isEmpty ? nil : bytes
                }
            }
            let from = index
            var isEnd = false
            while index < chunk.count, !isEnd {
                switch chunk[index] {
                case UInt8(ascii: "\""): if format == .csv { isQuoted.toggle() }
                case UInt8(ascii: "\n"):
                    line += 1
                    isEnd = !isQuoted
                default: break
                }
                index += 1
            }
            bytes += chunk[from..<index]
            if isEnd { return bytes }
            guard bytes.count <= Limits.recordBytesMax else {
                throw malformed(start, "record is longer than \(Limits.recordBytesMax) bytes: is a quote missing?")
            }
        }
    }

    private func malformed(_ line: Int, _ problem: String) -> CSVFile.Malformed {
        CSVFile.Malformed(description: "\(name):\(line): \(problem)")
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
}
