import Foundation

/// A terminal for a command: it reads what a test types.
package final class PseudoTerminal {
    /// The command's end.
    let follower: FileHandle
    private let leader: FileHandle

    package init() throws {
        var (first, second): (Int32, Int32) = (-1, -1)
        guard openpty(&first, &second, nil, nil, nil) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
        leader = FileHandle(fileDescriptor: first, closeOnDealloc: true)
        follower = FileHandle(fileDescriptor: second, closeOnDealloc: true)
    }

    /// Types a line, which the command reads when it asks for one.
    package func type(_ line: String) throws {
        try leader.write(contentsOf: Data("\(line)\n".utf8))
    }
}
