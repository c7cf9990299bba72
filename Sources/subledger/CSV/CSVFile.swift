import ArgumentParser
import Encoding
import Foundation
import Server

/// Reads CSV files of commands.
enum CSVFile {
    /// An invalid file; the description is one line with the name of the file and the line number.
    struct Malformed: CommandError, CustomStringConvertible {
        let description: String
        let exitCode = ExitCode.dataError
    }

    /// - Parameter name: A path, or - for standard input.
    static func read<Content>(
        _ name: String, _ content: ([CSVRecords.Record]) throws(CSVRecords.Malformed) -> Content
    ) throws(Malformed) -> Content {
        guard let bytes = InputFile.read(name) else {
            throw Malformed(description: "\(name): \(InputFile.unreadable)")
        }
        if let problem = CSVRecords.problem(bytes) { throw Malformed(description: "\(name): \(problem)") }
        do throws(CSVRecords.Malformed) {
            return try content(try CSVRecords.read(bytes))
        } catch {
            throw Malformed(description: "\(name):\(error.line): \(error.problem)")
        }
    }

    /// Adds the name of a file to the errors of reading it.
    static func naming<Value>(_ name: String, _ content: () throws -> Value) throws -> Value {
        do {
            return try content()
        } catch let error as CSVRecords.Malformed {
            throw Malformed(description: "\(name):\(error.line): \(error.problem)")
        } catch let error as TextRecords.OtherFormat {
            throw Malformed(description: "\(name): \(error.problem)")
        }
    }
}

extension TextRecords {
    private static let chunkBytes = 1 << 20

    /// Reads a file in parts, so that memory use does not depend on its size.
    ///
    /// - Parameter name: A path, or - for standard input.
    init(file name: String) throws {
        guard let handle = name == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: name) else {
            throw CSVFile.Malformed(description: "\(name): \(InputFile.unreadable)")
        }
        let attributes = name == "-" ? nil : try? FileManager.default.attributesOfItem(atPath: name)
        try self.init(bytesCount: (attributes?[.size] as? NSNumber)?.int64Value) {
            try handle.read(upToCount: Self.chunkBytes).map { Array($0) } ?? []
        }
    }
}
