import Foundation

/// One end of an established TCP connection on this machine, as the kernel reports it; see proc(5).
package struct KernelConnection {
    /// Bytes that the other end has not acknowledged.
    package let unsent: Int
    /// Bytes that the process has not read.
    package let unread: Int

    /// The connections of a local port.
    package static func at(_ port: Int) throws -> [KernelConnection] {
        let local = ":" + String(format: "%04X", port)
        return try table().split(separator: "\n").dropFirst().compactMap { line in
            let fields = line.split(separator: " ")
            guard fields.count > 4, fields[1].hasSuffix(local), fields[3] == "01" else { return nil }
            let queues = fields[4].split(separator: ":").compactMap { Int($0, radix: 16) }
            return queues.count == 2 ? KernelConnection(unsent: queues[0], unread: queues[1]) : nil
        }
    }

    /// Reads `/proc/net/tcp` to its end. The kernel returns a page at a time, and Foundation treats the first short read as
    /// the end of the file.
    private static func table() throws -> String {
        guard let file = fopen("/proc/net/tcp", "r") else { throw CocoaError(.fileReadUnknown) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var page = [UInt8](repeating: 0, count: 4096)
        while case let count = fread(&page, 1, page.count, file), count > 0 { bytes += page[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }
}
