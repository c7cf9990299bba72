import Encoding
import Foundation
import Readers
import Server

/// The folder of exports: a folder for each complete one, and one for an export that is not complete yet.
///
/// ```
/// export-000001/manifest.json             what it contains, and where the next one begins
/// export-000001/events-000001.csv         …
/// export-000002.partial/plan.json         up to where it goes
/// export-000002.partial/progress.jsonl    a line for each set of files that is complete
/// ```
struct ExportFolder {
    /// What an export was begun with. One that was interrupted goes on with it.
    struct Plan {
        let format: ExportFormat
        let rowsPerFile: Int
        let since: ExportCursor?
        let startedAt: Instant
        /// Where it ends.
        let cursor: ExportCursor
    }

    /// A set of files that is complete, and where the next one begins.
    struct Progress {
        /// The stream's number in the plan's order.
        let stream: Int
        let table: ExportTable
        /// Nil if the table is complete.
        let after: [String]?
        let files: [ExportFile.Record]
    }

    let path: String
    private let lock: Int32

    /// - Throws: ``CommandProblem`` if it cannot be made, or if another export is writing to it.
    init(_ path: String) throws(CommandProblem) {
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw CommandProblem("cannot make the folder \(path)", .unavailable)
        }
        let name = "\(path)/.lock"
        let lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else { throw .unwritable(name) }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            throw CommandProblem("another export is writing to \(path)", .unavailable)
        }
        self.path = path
        self.lock = lock
    }

    /// Names in the order of numbers: six digits, or more.
    static func digits(_ number: Int64) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, 6 - digits.count)) + digits
    }

    /// The number of the last complete export, and of one that is not complete.
    func numbers() throws(CommandProblem) -> (complete: Int64?, partial: Int64?) {
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
            throw CommandProblem("cannot read the folder \(path)", .unavailable)
        }
        var complete: Int64?
        var partial: Int64?
        for name in names where name.hasPrefix("export-") {
            let rest = name.dropFirst("export-".count)
            if let number = Int64(rest) {
                complete = max(complete ?? 0, number)
            } else if rest.hasSuffix(".partial"), let number = Int64(rest.dropLast(".partial".count)) {
                partial = max(partial ?? 0, number)
            }
        }
        return (complete, partial)
    }

    func completeFolder(_ export: Int64) -> String { "\(path)/export-\(Self.digits(export))" }

    func partialFolder(_ export: Int64) -> String { "\(completeFolder(export)).partial" }

    /// The cursor in the manifest of a complete export.
    func cursor(of export: Int64) throws(CommandProblem) -> ExportCursor {
        let name = "\(completeFolder(export))/manifest.json"
        guard let json = Self.json(name), let cursor = json["cursor"]?.string.flatMap({ ExportCursor($0) }) else {
            throw CommandProblem("\(name) is not the manifest of an export")
        }
        return cursor
    }

    /// The plan of an export that is not complete, and the sets of files that are. Nil if it was interrupted before it began.
    func resumed(_ export: Int64) throws(CommandProblem) -> (plan: Plan, progress: [Progress])? {
        let folder = partialFolder(export)
        guard FileManager.default.fileExists(atPath: "\(folder)/plan.json") else { return nil }
        guard let json = Self.json("\(folder)/plan.json"),
            let format = json["format"]?.string.flatMap({ ExportFormat(rawValue: $0) }),
            let rowsPerFile = json["rowsPerFile"]?.int64, let startedAt = json["startedAt"]?.canonicalInstant,
            let cursor = json["cursor"]?.string.flatMap({ ExportCursor($0) })
        else { throw CommandProblem("\(folder)/plan.json is not the plan of an export") }
        let since = json["since"]?.string
        let plan = Plan(
            format: format, rowsPerFile: Int(rowsPerFile), since: since.flatMap { ExportCursor($0) },
            startedAt: startedAt,
            cursor: cursor)
        guard since == nil || plan.since != nil else {
            throw CommandProblem("\(folder)/plan.json is not the plan of an export")
        }
        var progress: [Progress] = []
        let lines = InputFile.read("\(folder)/progress.jsonl") ?? []
        // The last line may have been cut off; its files are written again.
        let end = lines.lastIndex(of: UInt8(ascii: "\n")) ?? 0
        for line in lines[..<end].split(separator: UInt8(ascii: "\n")) {
            guard let json = try? JSONDocument(Array(line)).root, let stream = json["stream"]?.int64,
                let table = json["table"]?.string.flatMap({ ExportTable(rawValue: $0) })
            else { throw CommandProblem("\(folder)/progress.jsonl is damaged: delete \(folder) to begin again") }
            progress.append(
                Progress(
                    stream: Int(stream), table: table, after: json["after"]?.elements.compactMap(\.string),
                    files: json["files"]?.elements.compactMap { ExportFile.Record(json: $0) } ?? []))
        }
        return (plan, progress)
    }

    /// Begins an export.
    func begin(_ export: Int64, _ plan: Plan) throws(CommandProblem) {
        let folder = partialFolder(export)
        // Something that was interrupted before it had a plan.
        try? FileManager.default.removeItem(atPath: folder)
        guard mkdir(folder, 0o700) == 0 else { throw .unwritable(folder) }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("format", plan.format.rawValue)
            writer.member("rowsPerFile", Int64(plan.rowsPerFile))
            writer.member("since", plan.since?.text)
            writer.member("startedAt", plan.startedAt)
            writer.member("cursor", plan.cursor.text)
        }
        try Self.write(writer.bytes, "plan.json", in: folder)
    }

    /// Notes that a set of files is complete.
    func record(_ progress: Progress, of export: Int64) throws(CommandProblem) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("stream", Int64(progress.stream))
            writer.member("table", progress.table.rawValue)
            if let after = progress.after {
                writer.key("after")
                writer.array(after) { writer, text in writer.value(text) }
            }
            writer.key("files")
            writer.array(progress.files) { writer, file in file.write(to: &writer) }
        }
        let name = "\(partialFolder(export))/progress.jsonl"
        let descriptor = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unwritable(name) }
        defer { close(descriptor) }
        try ExportFile.write(writer.bytes + [UInt8(ascii: "\n")], to: descriptor, name)
        guard fsync(descriptor) == 0 else { throw .unwritable(name) }
    }

    /// Removes the line of a set of files that was cut off.
    func trimProgress(of export: Int64) throws(CommandProblem) {
        let name = "\(partialFolder(export))/progress.jsonl"
        guard let lines = InputFile.read(name) else { return }
        let end = lines.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        guard truncate(name, end) == 0 else { throw .unwritable(name) }
    }

    /// Writes the manifest of an export whose files are complete, and gives its folder its name.
    func finish(_ export: Int64, _ plan: Plan, _ files: [ExportFile.Record], at now: Instant) throws(CommandProblem) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("export", export)
            writer.member("format", plan.format.rawValue)
            writer.member("startedAt", plan.startedAt)
            writer.member("finishedAt", now)
            writer.member("since", plan.since?.text)
            writer.member("cursor", plan.cursor.text)
            writer.key("streams")
            writer.array(plan.cursor.ordered) { writer, stream in
                writer.object { writer in
                    writer.member("app", stream.key.app)
                    writer.member("environment", stream.key.environment.rawValue)
                    writer.member("position", stream.mark.position)
                    writer.member("chain", Hex.text(stream.mark.chain))
                    writer.member("change", stream.mark.change)
                }
            }
            writer.key("rows")
            writer.object { writer in
                for table in plan.cursor.layout.tables {
                    writer.key(table.rawValue)
                    writer.value(files.reduce(0) { $0 + ($1.table == table ? $1.rows : 0) })
                }
            }
            writer.key("files")
            writer.array(files) { writer, file in file.write(to: &writer) }
        }
        try Self.write(writer.bytes, "manifest.json", in: partialFolder(export))
        try complete(export)
    }

    /// Gives the folder of an export with a manifest its name.
    ///
    /// - Returns: Whether it has a manifest.
    @discardableResult
    func complete(_ export: Int64) throws(CommandProblem) -> Bool {
        let folder = partialFolder(export)
        guard FileManager.default.fileExists(atPath: "\(folder)/manifest.json") else { return false }
        unlink("\(folder)/plan.json")
        unlink("\(folder)/progress.jsonl")
        let name = completeFolder(export)
        guard rename(folder, name) == 0 else { throw .unwritable(name) }
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .unwritable(path) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .unwritable(path) }
        return true
    }

    private static func json(_ name: String) -> JSONValue? {
        InputFile.read(name).flatMap { try? JSONDocument($0).root }
    }

    /// Writes a whole file, which has its name once it is complete on disk.
    private static func write(_ bytes: [UInt8], _ name: String, in folder: String) throws(CommandProblem) {
        let unfinished = "\(folder)/\(name).part"
        let descriptor = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unwritable(unfinished) }
        defer { close(descriptor) }
        try ExportFile.write(bytes + [UInt8(ascii: "\n")], to: descriptor, unfinished)
        guard fsync(descriptor) == 0, rename(unfinished, "\(folder)/\(name)") == 0 else {
            throw .unwritable(unfinished)
        }
    }
}
