import CResources

/// A file of `deploy/migrations`: how a database gets from one version of the schema to the next, in one transaction.
package struct Migration: Sendable {
    /// The version that it leads to. The one before it is required.
    package let version: Int32
    /// Such as `0002_endpoints_and_money.sql`.
    package let file: String
    /// The comment at the head of the file, line by line: what changes, what is locked, and for how long.
    package let notes: [String]
    /// What the operator should do when it has been applied, in one line; nil if nothing.
    package let afterwards: String?
    package let steps: [Step]

    package struct Step: Sendable {
        /// What the step does, as in `index the log`.
        package let title: String
        let sql: String
    }

    /// All that this release knows, by version, from 2 on. The last one leads to ``Schema/version``.
    package static let all = [
        Migration(version: 2, file: "0002_endpoints_and_money.sql", embedded_migration_0002())
    ]

    private init(version: Int32, file: String, _ content: EmbeddedFile) {
        self.init(version: version, file: file, text: content.text)
    }

    /// - Parameter text: Begins with a comment, one paragraph of which may begin with `Afterwards: `. Each step begins with
    ///   a line `-- Step: title`.
    init(version: Int32, file: String, text: String) {
        var notes: [String] = []
        var steps: [(title: String, lines: [Substring])] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix(Self.stepMark) {
                steps.append((String(line.dropFirst(Self.stepMark.count)), []))
            } else if steps.isEmpty {
                notes.append(String(line.trimmingPrefix("--").trimmingPrefix(" ")))
            } else {
                steps[steps.count - 1].lines.append(line)
            }
        }
        while notes.last == "" { notes.removeLast() }
        precondition(!steps.isEmpty, "\(file) has no step")
        self.version = version
        self.file = file
        self.notes = notes
        let afterwards = notes.drop { !$0.hasPrefix(Self.afterwardsMark) }.prefix { !$0.isEmpty }
        self.afterwards =
            afterwards.isEmpty ? nil : String(afterwards.joined(separator: " ").dropFirst(Self.afterwardsMark.count))
        self.steps = steps.map { Step(title: $0.title, sql: $0.lines.joined(separator: "\n")) }
    }

    private static let stepMark = "-- Step: "
    private static let afterwardsMark = "Afterwards: "
}

extension EmbeddedFile {
    var text: String {
        String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }
}

/// What a migration is doing, for a line on the terminal or in the log.
package enum MigrationProgress: Sendable, CustomStringConvertible {
    /// Another process changes the schema.
    case waitingForProcess
    /// Sessions use what the migration would change.
    case waitingForSessions(file: String)
    case step(file: String, number: Int, of: Int, title: String)
    /// The step has run for a while. The phase is PostgreSQL's, if it says one.
    case running(seconds: Int64, phase: String?, percent: Int?)
    /// Views, functions, triggers and comments.
    case repeatable
    /// A migration was committed that leaves something to do.
    case afterwards(String)

    package var description: String {
        switch self {
        case .waitingForProcess: "waiting for another process that changes the schema"
        case .waitingForSessions(let file): "\(file): waiting for sessions that use the tables"
        case .step(let file, let number, let count, let title): "\(file), step \(number) of \(count): \(title)"
        case .running(let seconds, let phase, let percent):
            "running for \(seconds) s" + (phase.map { ": \($0)" } ?? "") + (percent.map { ", \($0) %" } ?? "")
        case .repeatable: "replacing views, functions, triggers and comments"
        case .afterwards(let advice): advice
        }
    }
}

/// What ``Schema/migrate(_:report:)`` would do.
package struct MigrationPlan: Sendable {
    /// The version of the database; 0 if there is no schema yet.
    package let found: Int32
    /// Those that are missing.
    package let migrations: [Migration]
    /// Whether views, functions, triggers and comments would be replaced.
    package let replacesRepeatable: Bool

    /// A database without a schema.
    package static let new = MigrationPlan(found: 0, migrations: [], replacesRepeatable: false)

    package var lines: [String] {
        if found == 0 { return ["no schema found: version \(Schema.version) would be created"] }
        guard !migrations.isEmpty || replacesRepeatable else {
            return ["schema is up to date at version \(Schema.version)"]
        }
        var lines = ["schema version \(found) found, this release has \(Schema.version)"]
        for migration in migrations {
            lines.append("\(migration.file) would be applied, in one transaction:")
            lines += migration.notes.map { $0.isEmpty ? "" : "  \($0)" }
        }
        if replacesRepeatable {
            lines.append("views, functions, triggers and comments would be replaced")
        }
        return lines
    }
}
