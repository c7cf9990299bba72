import Foundation

/// Files that commands read bodies from.
enum InputFile {
    static let unreadable = "the file cannot be read"

    /// - Parameter name: A path, or - for standard input.
    /// - Returns: Nil if it cannot be read.
    static func read(_ name: String) -> [UInt8]? {
        if name == "-" { return Array(FileHandle.standardInput.readDataToEndOfFile()) }
        return FileManager.default.contents(atPath: name).map { Array($0) }
    }
}
