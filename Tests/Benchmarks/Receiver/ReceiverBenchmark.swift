// Measures the receiver on this machine, together with its floors: the costs that it cannot avoid. Run it with
// deploy/bench.
//
// The server is a process of its own on the test cluster, an embedded PostgreSQL with fsync on. Every run has a database
// of its own. Runs of the server and the floors alternate, so that other load on the machine affects all of them.

import ArgumentParser
import Foundation
import TestSupport

struct ReceiverBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receiver", abstract: "Measure the receiver and its floors.", usage: "deploy/bench [<options>]")

    @Option(
        help: ArgumentHelp(
            """
            Sections to run, separated by commas: v1, v2, burst, start, lookups, console, delivery, reports, verify. \
            [all but the last four]
            """, valueName: "names"))
    var only: String?

    @Option(help: "Runs of each measurement. The table shows the medians.")
    var runs = 3

    @Option(help: "The duration of one run.")
    var seconds = 4

    @Option(help: "Concurrent connections.")
    var connections = 64

    @Option(help: "Apps among which the notifications of version 1 are divided, each a stream. Only with --only v1.")
    var streams = 1

    @Option(help: "Compare a log of this many rows with an empty one. 10000000 take some minutes and 5 GB.")
    var rows = 0

    @Option(help: "The number of subscriptions for the lookups and the console.")
    var subscriptions = 50_000

    @Option(help: "The number of events for the reports and for verify, and of rows of a report.")
    var events = 1_000_000

    @Option(help: ArgumentHelp("Write all figures here, as JSON.", valueName: "file"))
    var json: String?

    @Flag(help: "Exit with status 1 if a ratio misses its target.")
    var strict = false

    func validate() throws {
        guard (1...99).contains(runs), (1...60).contains(seconds), (1...1000).contains(connections),
            (0...1_000_000_000).contains(rows), (1...100_000_000).contains(subscriptions),
            (1...100_000_000).contains(events)
        else {
            throw ValidationError(
                "option out of range: expected --runs 1 to 99, --seconds 1 to 60, --connections 1 to 1000, --rows 0 to "
                    + "1000000000, --subscriptions and --events 1 to 100000000.")
        }
        let sections = try sections()
        guard streams == 1 || (2...1000).contains(streams) && sections == [.v1] else {
            throw ValidationError("--streams requires --only v1, and is at most 1000.")
        }
    }

    func sections() throws -> Set<Section> {
        guard let only else { return Set(Section.allCases).subtracting([.console, .delivery, .reports, .verify]) }
        return Set(
            try only.split(separator: ",").map { name in
                guard let section = Section(rawValue: String(name)) else {
                    throw ValidationError(
                        """
                        unknown section "\(name)": expected v1, v2, burst, start, lookups, console, delivery, \
                        reports or verify.
                        """)
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
            workloads.append(try await Workload.make(format, seconds: seconds, streams: streams, in: folder))
        }
        if workloads.isEmpty, sections.contains(.burst) || sections.contains(.start) || rows > 0 {
            workloads.append(try await Workload.make(.v1, seconds: seconds, in: folder))
        }
        let settings = RunSettings(
            seconds: seconds, connections: connections, folder: folder, streams: streams)
        for round in 1...runs {
            for workload in workloads where sections.contains(workload.format.section) {
                progress("run \(round) of \(runs), \(workload.format.label)")
                try await ReceiverRun(workload: workload, settings: settings).measure(&samples)
                try await HTTPRun(workload: workload, settings: settings).measure(&samples)
                try await AppendFloor(workload: workload).measure(&samples)
                try ParseFloor(workload: workload).measure(&samples)
                if !CitusCluster.isWanted {
                    try await CommitFloor(workload: workload, settings: settings).measure(&samples)
                }
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
        if sections.contains(.console) {
            try await ConsolePages(settings: settings, subscriptions: subscriptions, runs: runs).measure(&samples)
        }
        if sections.contains(.delivery) {
            for round in 1...runs {
                progress("delivery \(round) of \(runs)")
                try await DeliveryRun(settings: settings).measure(&samples)
            }
        }
        if sections.contains(.reports) {
            try await ReportsRun(settings: settings, events: events, runs: runs).measure(&samples)
        }
        if sections.contains(.verify) {
            try await VerifyRun(settings: settings, events: events, runs: runs).measure(&samples)
        }
        let report = Report(samples: samples, runs: runs, connections: connections, rows: rows)
        print(report.description)
        if let json { try report.json().write(to: URL(fileURLWithPath: json)) }
        if strict, report.ratios.contains(where: { !$0.isWithin }) { throw ExitCode.failure }
    }
}

enum Section: String, CaseIterable {
    case v1, v2, burst, start, lookups, console, delivery, reports, verify
}

/// The settings that all runs share.
struct RunSettings {
    let seconds: Int
    let connections: Int
    let folder: Folder
    var streams = 1
}

func progress(_ line: String) { FileHandle.standardError.write(Data("==> \(line)\n".utf8)) }

/// Raises the limit of file descriptors. A burst needs one for each connection, and so does the server, which inherits
/// the limit.
private func raiseFileLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}

/// Exits on a signal with the handlers of `exit`, which end the cluster and remove its folder. The other child processes
/// are in the same process group and receive the signal too.
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
