import Foundation

/// A file that a command writes, a line at a time.
struct OutputFile {
    private let handle: FileHandle
    private var waiting = Data()

    /// Written at once when there is so much of it.
    private static let waitingBytesMax = 1 << 20

    /// - Parameter name: A path, whose content is replaced, or - for standard output.
    init(_ name: String) throws(SettingError) {
        if name == "-" {
            handle = .standardOutput
            return
        }
        // Opened where it is. Foundation would put a new file in its place, whatever it was: a link, a pipe, a device.
        let descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw SettingError(description: "\(name) cannot be written") }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    mutating func write(line: [UInt8]) throws {
        waiting += line
        waiting.append(UInt8(ascii: "\n"))
        if waiting.count >= Self.waitingBytesMax { try flush() }
    }

    /// Writes what waits; to be called at the end.
    mutating func flush() throws {
        try handle.write(contentsOf: waiting)
        waiting.removeAll(keepingCapacity: true)
    }

    /// Writes a whole file.
    static func write(_ text: String, to name: String) throws {
        var file = try OutputFile(name)
        file.waiting = Data(text.utf8)
        try file.flush()
    }
}
