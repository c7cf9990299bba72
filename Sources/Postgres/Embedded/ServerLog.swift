import Foundation

/// Reads the last log lines of a child process, to report why it ended.
struct ServerLog {
    let path: String
    private let start: UInt64

    /// Records the current end of the file, so that only later lines are read.
    init(path: String) {
        self.path = path
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        start = (attributes?[.size] as? NSNumber)?.uint64Value ?? 0
    }

    /// The last line with an error since then, or else the last line.
    func lastLine() -> String {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return "no output" }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try? file.seek(toOffset: start)
        let data = (try? file.read(upToCount: 1 << 20)) ?? Data()
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
        let serious = lines.last { line in
            ["FATAL:", "PANIC:", "error:"].contains { line.contains($0) }
        }
        return (serious ?? lines.last).map(String.init) ?? "no output"
    }
}
