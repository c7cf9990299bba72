import ArgumentParser
import Crypto
import Encoding
import Foundation
import Readers
import Server

extension CommandProblem {
    /// With the reason of the C library's last error.
    static func unwritable(_ path: String, _ code: Int32 = errno) -> CommandProblem {
        CommandProblem("cannot write \(path): \(String(cString: strerror(code)))", .unavailable)
    }
}

/// A file of an export while it is written: under another name, and with its digest.
struct ExportFile {
    /// A complete file.
    struct Record: Equatable {
        let table: ExportTable
        let name: String
        let rows: Int64
        let bytes: Int64
        /// SHA-256.
        let digest: [UInt8]

        func write(to writer: inout JSONWriter) {
            writer.object { writer in
                writer.member("table", table.rawValue)
                writer.member("name", name)
                writer.member("rows", rows)
                writer.member("bytes", bytes)
                writer.member("sha256", Hex.text(digest))
            }
        }

        init(table: ExportTable, name: String, rows: Int64, bytes: Int64, digest: [UInt8]) {
            self.table = table
            self.name = name
            self.rows = rows
            self.bytes = bytes
            self.digest = digest
        }

        init?(json: JSONValue) {
            guard let table = json["table"]?.string.flatMap({ ExportTable(rawValue: $0) }),
                let name = json["name"]?.string, let rows = json["rows"]?.int64, let bytes = json["bytes"]?.int64,
                let digest = json["sha256"]?.string.flatMap({ text in
                    Array(text.utf8).withUnsafeBufferPointer { Hex.bytes($0) }
                })
            else { return nil }
            self.init(table: table, name: name, rows: rows, bytes: bytes, digest: digest)
        }
    }

    private let table: ExportTable
    private let columns: [ExportColumn]
    private let folder: String
    private let name: String
    private let format: ExportFormat
    private let descriptor: Int32
    private var waiting: [UInt8]
    private var hash = SHA256()
    private var bytes: Int64 = 0
    private(set) var rows: Int64 = 0

    /// Buffered bytes after which the buffer is written.
    private static let waitingBytesMax = 1 << 20

    init(_ table: ExportTable, name: String, in folder: String, format: ExportFormat) throws(CommandProblem) {
        self.table = table
        columns = table.columns
        self.folder = folder
        self.name = name
        self.format = format
        let path = Self.unfinished(name, in: folder)
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unwritable(path) }
        waiting = format.header(of: table)
    }

    private static func unfinished(_ name: String, in folder: String) -> String { "\(folder)/\(name).part" }

    mutating func write(_ row: ExportRow) throws(CommandProblem) {
        format.write(row, columns: columns, to: &waiting)
        rows += 1
        if waiting.count >= Self.waitingBytesMax { try flush() }
    }

    /// Gives the file its name. It is complete on disk when this returns.
    mutating func finish() throws(CommandProblem) -> Record {
        defer { close(descriptor) }
        try flush()
        let path = Self.unfinished(name, in: folder)
        guard fsync(descriptor) == 0, rename(path, "\(folder)/\(name)") == 0 else { throw .unwritable(path) }
        return Record(table: table, name: name, rows: rows, bytes: bytes, digest: Array(hash.finalize()))
    }

    /// Closes a file that will not be finished.
    func abandon() { close(descriptor) }

    private mutating func flush() throws(CommandProblem) {
        try Self.write(waiting, to: descriptor, Self.unfinished(name, in: folder))
        hash.update(data: waiting)
        bytes += Int64(waiting.count)
        waiting.removeAll(keepingCapacity: true)
    }

    /// Writes all bytes.
    static func write(_ bytes: [UInt8], to descriptor: Int32, _ path: String) throws(CommandProblem) {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes {
                Foundation.write(descriptor, $0.baseAddress! + offset, $0.count - offset)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .unwritable(path) }
            offset += count
        }
    }
}
