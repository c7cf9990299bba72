import Crypto
import Encoding
import Foundation
import Subscriptions

/// Why an archive file cannot be read or written. The description is one line that names the file.
package struct ArchiveError: Error, Hashable, CustomStringConvertible {
    package enum Problem: Hashable, Sendable {
        case missing
        /// With the reason of the C library.
        case unreadable(String)
        case unwritable(String)
        case damaged(String)
        /// It is not the file that the database lists.
        case other(String)

        /// Whether nothing of the file can be read.
        var isOfWholeFile: Bool {
            switch self {
            case .missing, .unreadable: true
            case .unwritable, .damaged, .other: false
            }
        }
    }

    package let file: String
    package let problem: Problem

    package var description: String {
        switch problem {
        case .missing: "archive file \(file) is missing"
        case .unreadable(let reason): "cannot read archive file \(file): \(reason)"
        case .unwritable(let reason): "cannot write archive file \(file): \(reason)"
        case .damaged(let what): "archive file \(file) is damaged: \(what)"
        case .other(let what): "archive file \(file) is not the one that the database lists: \(what)"
        }
    }

    static func unreadable(_ file: String, _ code: Int32 = errno) -> ArchiveError {
        ArchiveError(file: file, problem: code == ENOENT ? .missing : .unreadable(String(cString: strerror(code))))
    }

    static func unwritable(_ file: String, _ code: Int32 = errno) -> ArchiveError {
        ArchiveError(file: file, problem: .unwritable(String(cString: strerror(code))))
    }
}

/// A file with the bodies of one stream and month, as `subledger archive` writes it. It never changes.
///
///     file    = header line, body…, jws…, entry…, end
///     header  = {"format":"subledger-bodies-1","app":…,"environment":…,"month":"2026-03"} and a line feed
///     body    = position (8), SHA-256 of the evidence (32), length (4), the body as in `event_body.body`
///     jws     = SHA-256 of a header that bodies refer to (32), length (4), the header
///     entry   = position (8), offset of its body (8), in ascending order
///     end     = offset of the first jws (8), their number (8), offset of the first entry (8), their number (8),
///               SHA-256 of everything before it (32)
///
/// Numbers have their highest byte first. The file stands alone: with the headers in it, each body gives its evidence, whose
/// digest the hash chain of the log covers. An erased body is empty, and keeps its digest.
package final class ArchiveFile: Sendable {
    /// What the header line says.
    package struct Label: Hashable, Sendable {
        package let stream: StreamKey
        /// `2026-03`.
        package let month: String

        static let format = "subledger-bodies-1"

        var line: [UInt8] {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("format", Self.format)
                writer.member("app", stream.app)
                writer.member("environment", stream.environment.rawValue)
                writer.member("month", month)
            }
            return writer.bytes + [UInt8(ascii: "\n")]
        }

        fileprivate init?(line: [UInt8]) {
            guard let json = try? JSONDocument(line).root, json.string("format") == Self.format,
                let app = json.string("app"), let month = json.string("month"),
                let environment = json.string("environment").flatMap({ Environment(rawValue: $0) })
            else { return nil }
            self.init(stream: StreamKey(app: app, environment: environment), month: month)
        }

        package init(stream: StreamKey, month: String) {
            self.stream = stream
            self.month = month
        }
    }

    /// A body as it is in the file.
    package struct Body: Sendable {
        package let position: Int64
        /// Of its evidence.
        package let digest: [UInt8]
        /// Empty if it was erased.
        package let stored: [UInt8]
    }

    package let name: String
    package let label: Label
    /// How many bodies it has.
    package let count: Int
    package let bytes: Int64
    /// The headers that the bodies refer to, by their digests.
    package let headers: [[UInt8]: [UInt8]]
    private let descriptor: Int32
    private let entries: Int64

    static let endBytes = 64
    static let entryBytes = 16
    /// No header line is longer.
    private static let lineBytesMax = 4096
    private static let chunkBytes = 1 << 20

    /// - Throws: ``ArchiveError`` if it cannot be read, or has another form.
    init(_ name: String, in folder: String) throws(ArchiveError) {
        let descriptor = open("\(folder)/\(name)", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .unreadable(name) }
        var isKept = false
        defer { if !isKept { close(descriptor) } }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .unreadable(name) }
        let bytes = Int64(status.st_size)
        let bad = ArchiveError(file: name, problem: .damaged("it has another form"))
        guard bytes >= Int64(Self.endBytes) else { throw bad }
        let end = try Self.read(Self.endBytes, at: bytes - Int64(Self.endBytes), descriptor, name)
        let numbers = (0..<4).map { Self.number(end[($0 * 8)..<($0 * 8 + 8)]) }
        let (jws, jwsCount, entries, count) = (numbers[0], numbers[1], numbers[2], numbers[3])
        let body = bytes - Int64(Self.endBytes)
        guard jws >= 0, jws <= entries, entries <= body, count >= 0, count <= body / Int64(Self.entryBytes),
            entries + count * Int64(Self.entryBytes) == body
        else { throw bad }
        let start = try Self.read(Int(min(Int64(Self.lineBytesMax), jws)), at: 0, descriptor, name)
        guard let line = start.firstIndex(of: UInt8(ascii: "\n")).flatMap({ Label(line: Array(start[..<$0])) }) else {
            throw bad
        }
        var headers: [[UInt8]: [UInt8]] = [:]
        var offset = jws
        for _ in 0..<max(0, jwsCount) {
            guard offset + 36 <= entries else { throw bad }
            let head = try Self.read(36, at: offset, descriptor, name)
            let length = Self.number(head[32...])
            guard offset + 36 + length <= entries else { throw bad }
            headers[Array(head[..<32])] = try Self.read(Int(length), at: offset + 36, descriptor, name)
            offset += 36 + length
        }
        guard offset == entries else { throw bad }
        isKept = true
        (self.name, label, self.count, self.bytes) = (name, line, Int(count), bytes)
        (self.headers, self.descriptor, self.entries) = (headers, descriptor, entries)
    }

    deinit { close(descriptor) }

    /// The body of an event; nil if the file has none.
    package func body(at position: Int64) throws(ArchiveError) -> Body? {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            let entry = try entry(middle)
            if entry.position == position { return try body(entry) }
            if entry.position < position { low = middle + 1 } else { high = middle }
        }
        return nil
    }

    /// The body with a number, from 0, in the order of positions.
    package func body(number: Int) throws(ArchiveError) -> Body { try body(entry(number)) }

    /// The evidence of a body, compared with a digest.
    ///
    /// - Throws: ``DamagedBody``.
    package func evidence(of body: Body, digest: [UInt8]) throws(DamagedBody) -> [UInt8] {
        try AuditedBody(stored: body.stored, digest: digest, headers: headers).bytes()
    }

    /// SHA-256 of the whole file, as it is on the disk.
    package func digest() throws(ArchiveError) -> [UInt8] {
        posix_fadvise(descriptor, 0, 0, Int32(POSIX_FADV_DONTNEED))
        var hash = SHA256()
        var offset: Int64 = 0
        while offset < bytes {
            let count = Int(min(Int64(Self.chunkBytes), bytes - offset))
            hash.update(data: try Self.read(count, at: offset, descriptor, name))
            offset += Int64(count)
        }
        return Array(hash.finalize())
    }

    private func entry(_ number: Int) throws(ArchiveError) -> (position: Int64, offset: Int64) {
        let bytes = try Self.read(
            Self.entryBytes, at: entries + Int64(number) * Int64(Self.entryBytes), descriptor, name)
        return (Self.number(bytes[..<8]), Self.number(bytes[8...]))
    }

    private func body(_ entry: (position: Int64, offset: Int64)) throws(ArchiveError) -> Body {
        let bad = ArchiveError(file: name, problem: .damaged("no body at \(entry.offset)"))
        guard entry.offset > 0, entry.offset <= entries - 44 else { throw bad }
        let head = try Self.read(44, at: entry.offset, descriptor, name)
        let length = Self.number(head[40...])
        guard Self.number(head[..<8]) == entry.position, entry.offset + 44 + length <= entries else { throw bad }
        return Body(
            position: entry.position, digest: Array(head[8..<40]),
            stored: try Self.read(Int(length), at: entry.offset + 44, descriptor, name))
    }

    private static func read(
        _ count: Int, at offset: Int64, _ descriptor: Int32, _ name: String
    ) throws(ArchiveError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let got = bytes.withUnsafeMutableBytes {
                pread(descriptor, $0.baseAddress! + done, count - done, off_t(offset) + off_t(done))
            }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw .unreadable(name) }
            guard got > 0 else { throw ArchiveError(file: name, problem: .damaged("it was cut")) }
            done += got
        }
        return bytes
    }

    /// A number that may be damaged: a negative one is outside of every bound.
    private static func number(_ bytes: ArraySlice<UInt8>) -> Int64 {
        Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
}
