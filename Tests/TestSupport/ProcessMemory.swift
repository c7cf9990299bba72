import Foundation

/// The resident memory of a process, as the kernel reports it.
package enum ProcessMemory {
    /// The current size in bytes.
    package static func resident(_ pid: Int32) throws -> Int { try bytes(pid, "VmRSS:") }

    /// The peak size in bytes.
    package static func residentMax(_ pid: Int32) throws -> Int { try bytes(pid, "VmHWM:") }

    /// - Throws: If there is no such process.
    private static func bytes(_ pid: Int32, _ field: String) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix(field) }
        return (line?.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }.first ?? 0) * 1024
    }
}
