import Crypto
import Foundation

/// Writes an archive file under another name, and gives it its name once it is complete on the disk.
struct ArchiveFileWriter: ~Copyable {
    /// A complete file.
    struct Record: Hashable, Sendable {
        let name: String
        let digest: [UInt8]
        let bytes: Int64
        let first: Int64
        let last: Int64
        let bodies: Int64
        /// How many of the bodies are empty, since they were erased.
        let empty: Int64
    }

    private let name: String
    private let folder: String
    private let descriptor: Int32
    private var waiting: [UInt8]
    private var hash = SHA256()
    private var written: Int64 = 0
    private var index: [UInt8] = []
    private var first: Int64?
    private var last: Int64 = 0
    private var bodies: Int64 = 0
    private var empty: Int64 = 0

    /// Buffered bytes after which the buffer is written.
    private static let waitingBytesMax = 1 << 20

    static func unfinished(_ name: String) -> String { "\(name).partial" }

    init(_ name: String, _ label: ArchiveFile.Label, in folder: String) throws(ArchiveError) {
        self.name = name
        self.folder = folder
        waiting = label.line
        descriptor = open(
            "\(folder)/\(Self.unfinished(name))", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unwritable("\(folder)/\(name)") }
    }

    deinit { close(descriptor) }

    /// Appends a body, after those of lower positions.
    mutating func append(position: Int64, digest: [UInt8], stored: [UInt8]) throws(ArchiveError) {
        precondition(position > last, "bodies in another order than that of their positions")
        Self.append(UInt64(position), to: &index)
        Self.append(UInt64(written) + UInt64(waiting.count), to: &index)
        Self.append(UInt64(position), to: &waiting)
        waiting += digest
        Self.append(UInt32(stored.count), to: &waiting)
        waiting += stored
        first = first ?? position
        last = position
        bodies += 1
        empty += stored.isEmpty ? 1 : 0
        if waiting.count >= Self.waitingBytesMax { try flush() }
    }

    /// Writes the headers that the bodies refer to, and the index, and gives the file its name. It is on the disk when this
    /// returns.
    mutating func finish(headers: [[UInt8]: [UInt8]]) throws(ArchiveError) -> Record {
        let start = UInt64(written) + UInt64(waiting.count)
        for (digest, text) in headers.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            waiting += digest
            Self.append(UInt32(text.count), to: &waiting)
            waiting += text
        }
        let entries = UInt64(written) + UInt64(waiting.count)
        waiting += index
        for number in [start, UInt64(headers.count), entries, UInt64(bodies)] { Self.append(number, to: &waiting) }
        try flush()
        waiting = Array(hash.finalize())
        try flush()
        let unfinished = "\(folder)/\(Self.unfinished(name))"
        guard fsync(descriptor) == 0, rename(unfinished, "\(folder)/\(name)") == 0 else {
            throw .unwritable("\(folder)/\(name)")
        }
        try Self.synchronize(folder)
        return Record(
            name: name, digest: Array(hash.finalize()), bytes: written, first: first ?? 0, last: last, bodies: bodies,
            empty: empty)
    }

    /// Puts the names in a folder on the disk.
    static func synchronize(_ folder: String) throws(ArchiveError) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .unwritable(folder) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .unwritable(folder) }
    }

    private mutating func flush() throws(ArchiveError) {
        var offset = 0
        while offset < waiting.count {
            let count = waiting.withUnsafeBytes { write(descriptor, $0.baseAddress! + offset, $0.count - offset) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let code = errno
                // A full disk needs its space back.
                unlink("\(folder)/\(Self.unfinished(name))")
                throw .unwritable("\(folder)/\(name)", code)
            }
            offset += count
        }
        hash.update(data: waiting)
        written += Int64(waiting.count)
        waiting.removeAll(keepingCapacity: true)
    }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }
}
