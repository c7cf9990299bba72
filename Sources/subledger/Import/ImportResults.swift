import Encoding
import EventLog
import Foundation
import Server

/// The result file of an import: a JSON line for each row, in their order. What it contains is done, so that an import that
/// was killed goes on after it.
struct ImportResults {
    /// The line of the last row that is done; 0 if none is.
    private(set) var last = 0
    /// The customer of that row.
    private(set) var lastCustomerId = ""
    private let handle: FileHandle

    /// - Parameter name: A path. A file that exists is continued.
    init(_ name: String) throws {
        let descriptor = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SettingError(description: "\(name) cannot be written") }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var end: UInt64 = 0
        var offset: UInt64 = 0
        var rest: [UInt8] = []
        while let chunk = try handle.read(upToCount: 1 << 20), !chunk.isEmpty {
            offset += UInt64(chunk.count)
            rest += chunk
            guard let lineEnd = rest.lastIndex(of: UInt8(ascii: "\n")) else { continue }
            end = offset - UInt64(rest.count - lineEnd - 1)
            let start = rest[..<lineEnd].lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            let complete = Array(rest[start..<lineEnd])
            rest = Array(rest[(lineEnd + 1)...])
            guard let json = try? JSONDocument(complete).root, let line = json["line"]?.int64 else {
                throw CSVFile.Malformed(description: "\(name): is not the result file of an import")
            }
            last = Int(line)
            lastCustomerId = json["customerId"]?.string ?? ""
        }
        // The last line may have been cut off.
        try handle.truncate(atOffset: end)
        try handle.seekToEnd()
    }

    mutating func write(_ results: [(row: ImportFile.Row, outcome: ImportOutcome)]) throws {
        var bytes: [UInt8] = []
        for (row, outcome) in results {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("line", Int64(row.line))
                writer.member("customerId", row.customerId)
                writer.member("result", outcome.label)
                writer.member("reason", outcome.reason)
            }
            bytes += writer.bytes
            bytes.append(UInt8(ascii: "\n"))
            (last, lastCustomerId) = (row.line, row.customerId)
        }
        try handle.write(contentsOf: Data(bytes))
    }
}
