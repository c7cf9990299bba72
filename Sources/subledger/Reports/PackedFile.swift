import ArgumentParser
import Foundation
import Server

/// The content of a file that may be compressed by gzip, or packed in a ZIP archive with one file.
enum PackedFile {
    /// Longest content. A report of a large developer has some hundred megabytes.
    private static let contentBytesMax = 1 << 30

    /// - Parameter name: For errors.
    static func content(_ bytes: [UInt8], name: String) throws(CommandProblem) -> [UInt8] {
        if bytes.starts(with: [0x1F, 0x8B]) { return try unpacked(bytes, name) }
        if bytes.starts(with: [0x50, 0x4B, 0x03, 0x04]) {
            let entry = try ZIPEntry(bytes, name)
            return entry.isDeflated ? try unpacked(entry.asGzip, name) : entry.data
        }
        return bytes
    }

    /// Runs gzip, which every Debian has.
    private static func unpacked(_ packed: [UInt8], _ name: String) throws(CommandProblem) -> [UInt8] {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["gzip", "--decompress", "--stdout"]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        do {
            guard
                FileManager.default.createFile(
                    atPath: file.path, contents: Data(packed), attributes: [.posixPermissions: 0o600])
            else { throw CocoaError(.fileWriteUnknown) }
            process.standardInput = try FileHandle(forReadingFrom: file)
            try process.run()
        } catch {
            throw CommandProblem("\(name): cannot be unpacked: gzip cannot be run", .unavailable)
        }
        var content: [UInt8] = []
        while let chunk = try? output.fileHandleForReading.read(upToCount: 1 << 20), !chunk.isEmpty {
            content += chunk
            if content.count > contentBytesMax { process.terminate() }
        }
        process.waitUntilExit()
        guard content.count <= contentBytesMax else { throw CommandProblem("\(name): is larger than 1 GiB unpacked") }
        guard process.terminationStatus == 0 else {
            throw CommandProblem("\(name): is damaged or cut off: gzip cannot unpack it")
        }
        return content
    }

    /// The only file of a ZIP archive.
    ///
    /// Source: PKWARE, APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
    private struct ZIPEntry {
        let data: [UInt8]
        let isDeflated: Bool
        private let crc: ArraySlice<UInt8>
        private let contentBytes: ArraySlice<UInt8>

        init(_ bytes: [UInt8], _ name: String) throws(CommandProblem) {
            func number(_ offset: Int, _ count: Int) -> Int {
                (0..<count).reduce(0) { $0 | Int(bytes[offset + $1]) << (8 * $1) }
            }
            let damaged = CommandProblem("\(name): is damaged or cut off: the ZIP archive has no end")
            // The end record, which a comment of up to 65,535 bytes may follow.
            let first = max(0, bytes.count - 22 - 65_535)
            guard bytes.count >= 22,
                let end = (first...(bytes.count - 22)).reversed().first(where: { number($0, 4) == 0x0605_4B50 })
            else { throw damaged }
            guard number(end + 10, 2) == 1 else {
                throw CommandProblem("\(name): has \(number(end + 10, 2)) files: unpack it, and import them one by one")
            }
            let entry = number(end + 16, 4)
            guard entry + 46 <= end, number(entry, 4) == 0x0201_4B50 else { throw damaged }
            let method = number(entry + 10, 2)
            let size = number(entry + 20, 4)
            let header = number(entry + 42, 4)
            guard method == 0 || method == 8, header + 30 <= entry else { throw damaged }
            let start = header + 30 + number(header + 26, 2) + number(header + 28, 2)
            guard start + size <= entry else { throw damaged }
            data = Array(bytes[start..<start + size])
            isDeflated = method == 8
            crc = bytes[entry + 16..<entry + 20]
            contentBytes = bytes[entry + 24..<entry + 28]
        }

        /// The same in the form of a gzip file, whose trailer has the checksum and the length.
        ///
        /// Source: RFC 1952, section 2.3.
        var asGzip: [UInt8] { [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255] + data + crc + contentBytes }
    }
}
