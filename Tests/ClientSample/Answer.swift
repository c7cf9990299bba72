import Foundation

/// The answer to a command.
struct Answer: Encodable {
    var isOk = true
    var error: String?
    var found: [String]?
    var refused: [String]?
    var active: [String]?
    var trust: String?
    var unfinished: [String]?

    private enum CodingKeys: String, CodingKey {
        case isOk = "ok"
        case error, found, refused, active, trust, unfinished
    }
}

/// What the client did, before the answer to the command that made it do so.
struct FinishedEvent: Encodable {
    let event = "finished"
    let id: String
    let text: String

    private enum CodingKeys: String, CodingKey { case event, id, text }
}

enum Output {
    private static let lock = NSLock()

    /// Writes a line of JSON to standard output at once.
    static func write(_ line: some Encodable) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(line) else { preconditionFailure("a line of texts and numbers") }
        lock.withLock { FileHandle.standardOutput.write(data + Data("\n".utf8)) }
    }
}
