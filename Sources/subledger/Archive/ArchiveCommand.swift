import ArgumentParser
import Encoding
import EventLog
import Server

struct ArchiveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "archive",
        abstract: "Move the bodies of past months into files, or back; a server may keep running.",
        discussion: """
            Writes a file for each stream and month into the archive folder, reads it back from the disk, compares each \
            body with its digest in the log, and only then drops the bodies from the database. Everything but the bodies \
            stays there. Safe to repeat, whenever it was interrupted. A month stays whose bodies something still waits \
            for. Prints a JSON line for each month. Exit status 65 if a body is damaged, or a file is not the one that \
            was written; 69 if a month is still needed, a file cannot be written or read, or another command is at work. \
            Connects as the owner of the schema.
            """)

    @Option(help: ArgumentHelp("Archive all months before this one, such as 2026-03, of UTC.", valueName: "month"))
    var before: String?

    @Option(help: ArgumentHelp("Put the bodies of this month back, and remove its files.", valueName: "month"))
    var restore: String?

    @Flag(help: "List the archive files: a JSON line for each.")
    var list = false

    @Flag(help: "Remove the files that an interrupted command left.")
    var clean = false

    @Flag(help: "Show what would be archived or restored, and change nothing.")
    var dryRun = false

    @OptionGroup var archive: ArchiveFlags
    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        let tasks = [before != nil, restore != nil, list, clean].count { $0 }
        guard tasks == 1 else { throw ValidationError("expected one of --before, --restore, --list and --clean.") }
        for (flag, month) in [("--before", before), ("--restore", restore)] {
            guard let month else { continue }
            guard month.wholeMatch(of: /[0-9]{4}-(0[1-9]|1[0-2])/) != nil else {
                throw ValidationError("\(flag) expects a month such as 2026-03.")
            }
        }
        guard !dryRun || before != nil || restore != nil else {
            throw ValidationError("--dry-run requires --before or --restore.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values.merging(archive.values) { first, _ in first })
            guard let folder = settings.archive.folder ?? (list ? "" : nil) else {
                throw SettingError(
                    description: "no archive folder is configured: set --archive-folder or SUBLEDGER_ARCHIVE_FOLDER")
            }
            try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withOwner { lock in
                    try await database.withOwner { connection in
                        let records = ArchiveRecords(connection: connection)
                        let archiver = BodyArchiver(
                            lock: lock, connection: connection, folder: folder, now: SystemClock.now)
                        if list {
                            for file in try await records.all() { show(file) }
                        } else if clean {
                            print("removed: \(try await archiver.clean())")
                        } else if let before {
                            try await archive(before, archiver)
                        } else if let restore {
                            try await self.restore(restore, archiver, records)
                        }
                    }
                }
            }
        }
    }

    private func archive(_ month: String, _ archiver: BodyArchiver) async throws {
        guard !dryRun else {
            for found in try await archiver.months(before: month) {
                let need = try await archiver.need(of: found.month)
                printError("\(found.month): bodies \(found.bodies)\(need.map { ", still needed: \($0)" } ?? "")")
            }
            return
        }
        let progress = ProgressReport("archive", unit: "bodies")
        try await archiver.archive(before: month, onMonth: { show($0) }, onProgress: { progress.update($0, of: $1) })
    }

    private func restore(_ month: String, _ archiver: BodyArchiver, _ records: ArchiveRecords) async throws {
        guard !dryRun else {
            for file in try await records.all() where file.month == month && file.state == .kept {
                printError("\(file.name): bodies \(file.bodies ?? 0)")
            }
            return
        }
        let progress = ProgressReport("restore", unit: "bodies")
        show(try await archiver.restore(month) { progress.update($0, of: $1) })
    }

    private func show(_ outcome: BodyArchiver.Outcome) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("month", outcome.month)
            writer.member("files", outcome.files)
            writer.member("bodies", outcome.bodies)
            writer.member("bytes", outcome.bytes)
        }
        print(writer.text)
    }

    private func show(_ file: ListedArchive) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("file", file.name)
            writer.member("state", file.state.rawValue)
            writer.member("app", file.stream?.app)
            writer.member("environment", file.stream?.environment.rawValue)
            writer.member("month", file.month)
            writer.member("bodies", file.bodies)
            writer.member("firstPosition", file.positions?.lowerBound)
            writer.member("lastPosition", file.positions?.upperBound)
            writer.member("bytes", file.bytes)
            writer.member("sha256", file.digest.map { Hex.text($0) })
        }
        print(writer.text)
    }
}
