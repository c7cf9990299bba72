import ArgumentParser
import Foundation
import TestSupport

struct Measure: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "measure", abstract: "Measure what the receiver takes, beside its floors.")

    @Option(
        help: ArgumentHelp(
            "Sections, with commas between them: v1, v2, burst, start, lookups. [all]", valueName: "names"))
    var only: String?

    @Option(help: "Runs of each measurement, of which the table has the medians.")
    var runs = 3

    @Option(help: "How long one of them sends.")
    var seconds = 4

    @Option(help: "Connections that send.")
    var connections = 64

    @Option(help: "Compare a log of so many rows with an empty one; 10000000 take some minutes and 5 GB.")
    var rows = 0

    @Option(help: "Look customers up among so many subscriptions.")
    var subscriptions = 50_000

    @Option(help: ArgumentHelp("Keep every figure here, as JSON.", valueName: "file"))
    var json: String?

    @Flag(help: "Exit status 1 if a ratio is over its bar.")
    var strict = false

    func validate() throws {
        guard (1...99).contains(runs), (1...60).contains(seconds), (1...1000).contains(connections),
            (0...1_000_000_000).contains(rows), (1...100_000_000).contains(subscriptions)
        else {
            throw ValidationError(
                "--runs, --seconds, --connections, --rows and --subscriptions must be positive, and not enormous.")
        }
        _ = try sections()
    }

    func sections() throws -> Set<Section> {
        guard let only else { return Set(Section.allCases) }
        return Set(
            try only.split(separator: ",").map { name in
                guard let section = Section(rawValue: String(name)) else {
                    throw ValidationError("There is no section \"\(name)\". There are: v1, v2, burst, start, lookups.")
                }
                return section
            })
    }

    func run() async throws {
        raiseFileLimit()
        let folder = try Folder()
        let signals = endOnSignals(folder)
        defer { signals.forEach { $0.cancel() } }
        defer { folder.remove() }
        let sections = try sections()
        var samples = Samples()
        var workloads: [Workload] = []
        for format in Format.allCases where sections.contains(format.section) {
            workloads.append(try await Workload.make(format, seconds: seconds, in: folder))
        }
        if workloads.isEmpty, sections.contains(.burst) || sections.contains(.start) || rows > 0 {
            workloads.append(try await Workload.make(.v1, seconds: seconds, in: folder))
        }
        let settings = RunSettings(seconds: seconds, connections: connections, folder: folder)
        for round in 1...runs {
            for workload in workloads where sections.contains(workload.format.section) {
                progress("run \(round) of \(runs), \(workload.format.label)")
                try await ReceiverRun(workload: workload, settings: settings).measure(&samples)
                try await HTTPRun(workload: workload, settings: settings).measure(&samples)
                try await AppendFloor(workload: workload).measure(&samples)
                try ParseFloor(workload: workload).measure(&samples)
                try await CommitFloor(workload: workload, settings: settings).measure(&samples)
            }
        }
        if rows > 0, let workload = workloads.first {
            try await LongLog(workload: workload, settings: settings, rows: rows, runs: runs).measure(&samples)
        }
        if sections.contains(.burst), let workload = workloads.first {
            try await Burst(workload: workload, settings: settings).measure(&samples)
        }
        if sections.contains(.start), let workload = workloads.first {
            for round in 1...runs {
                progress("start \(round) of \(runs)")
                try await StartTime(workload: workload, settings: settings).measure(&samples)
            }
        }
        if sections.contains(.lookups) {
            try await Lookups(settings: settings, subscriptions: subscriptions, runs: runs).measure(&samples)
        }
        let report = Report(samples: samples, runs: runs, connections: connections, rows: rows)
        print(report.description)
        if let json { try report.json().write(to: URL(fileURLWithPath: json)) }
        if strict, report.ratios.contains(where: { !$0.isWithin }) { throw ExitCode.failure }
    }
}

enum Section: String, CaseIterable {
    case v1, v2, burst, start, lookups
}

/// What is the same for every run.
struct RunSettings {
    let seconds: Int
    let connections: Int
    let folder: Folder
}

func progress(_ line: String) { FileHandle.standardError.write(Data("==> \(line)\n".utf8)) }

/// A burst needs a descriptor for each connection, and so does the server, which inherits the limit.
private func raiseFileLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}

/// Ends the process as `exit` does, so that the cluster is ended and its folder removed. What else was started gets the
/// signal itself, as part of the group.
private func endOnSignals(_ folder: Folder) -> [any DispatchSourceSignal] {
    [SIGINT, SIGTERM].map { number in
        signal(number, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler {
            folder.remove()
            exit(128 + number)
        }
        source.resume()
        return source
    }
}
