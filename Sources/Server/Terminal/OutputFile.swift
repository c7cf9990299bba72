import Foundation

/// A buffered file that a command writes line by line.
package struct OutputFile {
    private let handle: FileHandle
    private var waiting = Data()

    /// Buffered bytes after which the buffer is written.
    private static let waitingBytesMax = 1 << 20

    /// - Parameter name: A path, whose content is overwritten, or - for standard output.
    package init(_ name: String) throws(SettingError) {
        if name == "-" {
            handle = .standardOutput
            return
        }
        // Opened in place. Foundation would replace the file, even if it is a link, a pipe or a device.
        let descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw SettingError(description: "\(name) cannot be written") }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    package mutating func write(line: [UInt8]) throws {
        waiting += line
        waiting.append(UInt8(ascii: "\n"))
        if waiting.count >= Self.waitingBytesMax { try flush() }
    }

    /// Writes the buffered lines. Must be called at the end.
    package mutating func flush() throws {
        try handle.write(contentsOf: waiting)
        waiting.removeAll(keepingCapacity: true)
    }

    /// Writes a whole file.
    package static func write(_ text: String, to name: String) throws {
        var file = try OutputFile(name)
        file.waiting = Data(text.utf8)
        try file.flush()
    }
}
