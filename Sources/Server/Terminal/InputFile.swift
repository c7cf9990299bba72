import Foundation

/// Reads the input files of commands.
package enum InputFile {
    package static let unreadable = "cannot read file"

    /// - Parameter name: A path, or - for standard input.
    /// - Returns: Nil if the file cannot be read.
    package static func read(_ name: String) -> [UInt8]? {
        if name == "-" { return Array(FileHandle.standardInput.readDataToEndOfFile()) }
        return FileManager.default.contents(atPath: name).map { Array($0) }
    }
}
