import ArgumentParser
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
        if let problem = problem(bytes) { throw Malformed(description: "\(name): \(problem)") }
        do throws(CSVRecords.Malformed) {
            return try content(try CSVRecords.read(bytes))
        } catch {
            throw Malformed(description: "\(name):\(error.line): \(error.problem)")
        }
    }

    /// What files of other kinds begin with, which would give a strange error as text.
    static func problem(_ bytes: some Sequence<UInt8>) -> String? {
        let bytes = Array(bytes.prefix(4))
        if bytes.starts(with: [0x50, 0x4B, 0x03, 0x04]) { return "is a ZIP archive: unpack it first" }
        if bytes.starts(with: [0x1F, 0x8B]) { return "is compressed by gzip: unpack it first" }
        if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) {
            return "is UTF-16: save it as UTF-8"
        }
        return nil
    }
}
