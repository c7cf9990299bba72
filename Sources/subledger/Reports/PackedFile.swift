import ArgumentParser
import Foundation
import Server

/// The content of a file, by pieces. The file may be compressed by gzip, or be a ZIP archive with one file.
final class PackedFile {
    private let name: String
    private let pieceBytes: Int
    /// The file, or what gzip writes.
    private let source: FileHandle
    /// How much of the file is still content; nil if its end says that.
    private var bytesLeft: Int?
    private let gzip: Process?

    /// - Parameters:
    ///   - file: Is read from its start, and must not be read otherwise meanwhile.
    ///   - name: For errors.
    ///   - pieceBytes: Longest piece.
    init(_ file: FileHandle, name: String, pieceBytes: Int) throws {
        self.name = name
        self.pieceBytes = pieceBytes
        let start = try file.bytes(from: 0, count: 4)
        var packed: FileHandle?
        if start.starts(with: [0x1F, 0x8B]) {
            packed = file
        } else if start == [0x50, 0x4B, 0x03, 0x04] {
            let entry = try ZIPEntry(file, name)
            if entry.isDeflated {
                packed = try entry.asGzip(file, name)
            } else {
                bytesLeft = entry.bytes.count
                try file.seek(toOffset: UInt64(entry.bytes.lowerBound))
            }
        }
        if let packed {
            try packed.seek(toOffset: 0)
            let output = Pipe()
            gzip = try PackedFile.unpacking(packed, to: output, name)
            source = output.fileHandleForReading
        } else {
            if bytesLeft == nil { try file.seek(toOffset: 0) }
            gzip = nil
            source = file
        }
    }

    /// The next piece; empty at the end.
    ///
    /// - Throws: `CommandProblem` at the end of what could be unpacked, if that is not all.
    func read() throws -> [UInt8] {
        let count = min(pieceBytes, bytesLeft ?? .max)
        let piece = try count > 0 ? source.read(upToCount: count) ?? Data() : Data()
        bytesLeft = bytesLeft.map { $0 - piece.count }
        if piece.isEmpty, let gzip {
            gzip.waitUntilExit()
            guard gzip.terminationStatus == 0 else {
                throw CommandProblem("\(name): is damaged or cut off: gzip cannot unpack it")
            }
        }
        return [UInt8](piece)
    }

    /// Throws if the rest cannot be unpacked.
    func checkRest() throws {
        guard gzip != nil else { return }
        while !(try read().isEmpty) {}
    }

    private static func cannotUnpack(_ name: String) -> CommandProblem {
        CommandProblem("\(name): cannot be unpacked: gzip cannot be run", .unavailable)
    }

    /// Runs gzip, which every Debian has.
    private static func unpacking(
        _ packed: FileHandle, to output: Pipe, _ name: String
    ) throws(CommandProblem) -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["gzip", "--decompress", "--stdout"]
        process.standardInput = packed
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        do {
            try process.run()
        } catch {
            throw cannotUnpack(name)
        }
        return process
    }

    /// The only file of a ZIP archive.
    ///
    /// Source: PKWARE, APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
    private struct ZIPEntry {
        /// Where its data is in the archive.
        let bytes: Range<Int>
        let isDeflated: Bool
        /// The checksum and the length of its content, as they end a gzip file too.
        private let trailer: [UInt8]

        init(_ file: FileHandle, _ name: String) throws {
            func number(_ bytes: [UInt8], _ offset: Int, _ count: Int) -> Int {
                (0..<count).reduce(0) { $0 | Int(bytes[offset + $1]) << (8 * $1) }
            }
            let damaged = CommandProblem("\(name): is damaged or cut off: the ZIP archive has no end")
            // The end record, which a comment of up to 65,535 bytes may follow.
            let length = Int(try file.seekToEnd())
            let tailStart = max(0, length - 22 - 65_535)
            let tail = try file.bytes(from: tailStart, count: length - tailStart)
            guard
                let end = stride(from: tail.count - 22, through: 0, by: -1).first(where: {
                    number(tail, $0, 4) == 0x0605_4B50
                })
            else { throw damaged }
            guard number(tail, end + 10, 2) == 1 else {
                throw CommandProblem(
                    "\(name): has \(number(tail, end + 10, 2)) files: unpack it, and import them one by one")
            }
            let entryStart = number(tail, end + 16, 4)
            let entry = try file.bytes(from: entryStart, count: 46)
            guard entryStart + 46 <= tailStart + end, entry.count == 46, number(entry, 0, 4) == 0x0201_4B50 else {
                throw damaged
            }
            let method = number(entry, 10, 2)
            let headerStart = number(entry, 42, 4)
            guard method == 0 || method == 8, headerStart + 30 <= entryStart else { throw damaged }
            let header = try file.bytes(from: headerStart, count: 30)
            guard header.count == 30 else { throw damaged }
            let start = headerStart + 30 + number(header, 26, 2) + number(header, 28, 2)
            let size = number(entry, 20, 4)
            guard start + size <= entryStart else { throw damaged }
            bytes = start..<start + size
            isDeflated = method == 8
            trailer = Array(entry[16..<20] + entry[24..<28])
        }

        /// The same in the form of a gzip file.
        ///
        /// Source: RFC 1952, section 2.3.
        func asGzip(_ archive: FileHandle, _ name: String) throws(CommandProblem) -> FileHandle {
            do {
                let file = try FileHandle.unnamed()
                try file.write(contentsOf: Data([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]))
                try archive.seek(toOffset: UInt64(bytes.lowerBound))
                try file.append(archive, atMost: bytes.count)
                try file.write(contentsOf: Data(trailer))
                return file
            } catch {
                throw PackedFile.cannotUnpack(name)
            }
        }
    }
}

extension FileHandle {
    private static let copyBytes = 1 << 20

    /// Opens a file so that it can be read more than once: what comes through a pipe is copied to a file first.
    ///
    /// - Parameter path: Or - for standard input.
    /// - Returns: Nil if the file cannot be read.
    static func rereadable(_ path: String) -> FileHandle? {
        guard let file = path == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: path) else { return nil }
        if (try? file.seek(toOffset: 0)) != nil { return file }
        guard let copy = try? unnamed(), (try? copy.append(file, atMost: .max)) != nil else { return nil }
        return copy
    }

    /// An empty file in the folder for temporary files, which nobody else can open, and which is gone when it is closed.
    fileprivate static func unnamed() throws -> FileHandle {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID().uuidString)")
        guard
            FileManager.default.createFile(
                atPath: file.path, contents: nil, attributes: [.posixPermissions: 0o600])
        else { throw CocoaError(.fileWriteUnknown) }
        defer { try? FileManager.default.removeItem(at: file) }
        return try FileHandle(forUpdating: file)
    }

    /// Writes what the other file has from where it stands.
    fileprivate func append(_ other: FileHandle, atMost count: Int) throws {
        var left = count
        while left > 0, let piece = try other.read(upToCount: min(left, Self.copyBytes)), !piece.isEmpty {
            try write(contentsOf: piece)
            left -= piece.count
        }
    }

    /// Fewer than `count` at the end of the file.
    fileprivate func bytes(from offset: Int, count: Int) throws -> [UInt8] {
        try seek(toOffset: UInt64(offset))
        return [UInt8](try read(upToCount: count) ?? Data())
    }
}
