import Foundation
import TestSupport

/// The table of medians, and the ratios with their targets.
struct Report: CustomStringConvertible {
    let samples: Samples
    let runs: Int
    let connections: Int
    let rows: Int

    /// A figure with a target.
    struct Ratio {
        let name: String
        let value: Double
        let bar: Double
        /// The target is a minimum instead of a maximum.
        var isAtLeast = false
        var unit = ""

        var isWithin: Bool { isAtLeast ? value >= bar : value <= bar }
    }

    var ratios: [Ratio] {
        Format.allCases.flatMap { ratios(of: $0) } + burstRatios
            + [
                ratio(
                    "log of \(rows) rows / empty log, rate", "rows.long.rate", over: ["rows.empty.rate"], 0.9,
                    atLeast: true),
                figure("start to first 200, database up (ms)", "start.external", 300),
                figure("start to first 200, private database (ms)", "start.embedded", 300),
            ].compactMap(\.self) + lookupRatios + consoleRatios + deliveryRatios + storeReportRatios
            + verifyRatios
    }

    private func ratios(of format: Format) -> [Ratio] {
        let (name, label) = (format.rawValue, format.label)
        let floors = ["http", "json", "append"] + (format == .v2 ? ["signatures"] : [])
        let floorsText = format == .v2 ? "HTTP + 3 signatures + JSON + append" : "HTTP + JSON + append"
        return [
            ratio(
                "\(label) server CPU / (\(floorsText))", "\(name).server", over: floors.map { "\(name).\($0).server" },
                1.3),
            ratio("\(label) rate / pgbench's", "\(name).rate", over: ["\(name).pgbench.rate"], 1, atLeast: true),
            ratio("\(label) p99 at half load / of one commit", "\(name).half.p99", over: ["\(name).commit.p99"], 3),
            again(name, label),
            ratio("\(label) disk / body", "\(name).disk", over: ["\(name).body"], format == .v1 ? 0.65 : 0.2),
        ].compactMap(\.self)
    }

    private func again(_ name: String, _ label: String) -> Ratio? {
        guard let again = samples.sum(["\(name).again.server", "\(name).again.database"]),
            let first = samples.sum(["\(name).server", "\(name).database"])
        else { return nil }
        return Ratio(name: "\(label) CPU of a duplicate / of a new one", value: again / first, bar: 1)
    }

    private var burstRatios: [Ratio] {
        [
            figure("burst: lost acknowledgements", "burst.lost", 0),
            figure("burst: requests not answered 200 or 503", "burst.unanswered", 0),
            figure("burst: slowest answer (ms)", "burst.slowest", 10_000),
            figure("burst: memory of the server (MB)", "burst.memory", 200, per: 1e6),
        ].compactMap(\.self)
    }

    func ratio(
        _ name: String, _ value: String, over floors: [String], _ bar: Double, atLeast: Bool = false
    ) -> Ratio? {
        guard let value = samples.median(value), let floor = samples.sum(floors), floor > 0 else { return nil }
        return Ratio(name: name, value: value / floor, bar: bar, isAtLeast: atLeast)
    }

    func figure(_ name: String, _ value: String, _ bar: Double, per unit: Double = 1) -> Ratio? {
        samples.median(value).map { Ratio(name: name, value: $0 / unit, bar: bar) }
    }

    // MARK: - Text

    var description: String {
        var lines = [
            "\(Machine.description); \(connections) connections; medians of \(runs) runs",
            row(["", "per s", "p50 ms", "p99 ms", "server us", "database us", "sender us", "MB", "disk B"]),
        ]
        for format in Format.allCases {
            let (name, label) = (format.rawValue, format.label)
            lines += [
                line("\(label), durable", name, disk: "\(name).disk", memory: "\(name).memory"),
                nodesLine(name),
                line("\(label), again", "\(name).again"),
                line("\(label), half the rate", "\(name).half"),
                line("  floor: HTTP", "\(name).http"),
                line("  floor: append", "\(name).append"),
                line("  floor: JSON", "\(name).json"),
                line("  floor: 3 signatures", "\(name).signatures"),
                line("  floor: pgbench", "\(name).pgbench"),
                line("  floor: one commit", "\(name).commit"),
            ].compactMap(\.self)
        }
        lines += lookupLines + consoleLines + deliveryLines + storeReportLines + verifyLines + burstLines + startLines
        if !Instructions.isPossible { lines.append("instructions: not supported by this machine") }
        lines.append("")
        for ratio in ratios {
            let name = ratio.name.padding(toLength: 58, withPad: " ", startingAt: 0)
            let bar = "\(ratio.isAtLeast ? ">=" : "<=") \(number(ratio.bar))"
            lines.append(
                "\(name)\(left(number(ratio.value), 9))   \(bar.padding(toLength: 10, withPad: " ", startingAt: 0))"
                    + (ratio.isWithin ? "met" : "MISSED"))
        }
        for format in Format.allCases {
            guard let rate = samples.median("\(format.rawValue).rate") else { continue }
            let most = processorBound(format.rawValue).map {
                "; \(Machine.processors) processors allow \(number($0))/s"
            }
            lines.append("\(format.label): \(number(rate))/s, goal \(format.goalPerSecond)/s\(most ?? "")")
        }
        return lines.joined(separator: "\n")
    }

    /// The rate at which server, database and sender use all processors fully.
    private func processorBound(_ name: String) -> Double? {
        samples.sum(["\(name).server", "\(name).database", "\(name).client"])
            .map { Double(Machine.processors) * 1e6 / $0 }
    }

    /// The processor time of each node of a distributed database for a notification; nil for one server.
    private func nodesLine(_ name: String) -> String? {
        let used = CitusCluster.nodes.indices.compactMap { samples.median("\(name).node\($0)") }
        guard used.count == CitusCluster.nodes.count else { return nil }
        return "  database us of "
            + zip(CitusCluster.nodes, used).map { "\($0): \(number($1))" }.joined(separator: ", ")
    }

    private var burstLines: [String] {
        let names = ["due", "sent", "taken", "refused", "slowest", "p99"].compactMap { samples.median("burst.\($0)") }
        guard names.count == 6 else { return [] }
        let figures = names.map(number)
        return [
            "burst of 10 s: due \(figures[0]), sent \(figures[1]), 200 \(figures[2]), 503 \(figures[3]), "
                + "slowest \(figures[4]) ms, p99 \(figures[5]) ms"
        ]
    }

    private var startLines: [String] {
        guard let killed = samples.median("start.killed") else { return [] }
        return ["start to first 200, private database, after kill -9: \(number(killed)) ms"]
    }

    /// One row of the table; nil if none of its figures was measured.
    func line(_ label: String, _ name: String, disk: String? = nil, memory: String? = nil) -> String? {
        let values = [
            samples.median("\(name).rate"), samples.median("\(name).p50") ?? samples.median("\(name).mean"),
            samples.median("\(name).p99"), samples.median("\(name).server"), samples.median("\(name).database"),
            samples.median("\(name).client"), memory.flatMap { samples.median($0) }.map { $0 / 1e6 },
            disk.flatMap { samples.median($0) },
        ]
        guard values.contains(where: { $0 != nil }) else { return nil }
        var text = row([label] + values.map { $0.map(number) ?? "-" })
        if let server = samples.median("\(name).server.instructions"),
            let database = samples.median("\(name).database.instructions")
        {
            text += "  instructions: server \(number(server)), database \(number(database))"
        }
        return text
    }

    private func row(_ cells: [String]) -> String {
        cells[0].padding(toLength: 22, withPad: " ", startingAt: 0)
            + cells.dropFirst().map { left($0, 12) }.joined()
    }

    private func left(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(1, width - text.count)) + text
    }

    private func number(_ value: Double) -> String {
        String(format: abs(value) >= 1000 ? "%.0f" : abs(value) >= 10 ? "%.1f" : "%.2f", value)
    }

    // MARK: - JSON

    /// The median, the spread and the runs of each figure.
    private var figures: [String: Any] {
        samples.all.reduce(into: [:]) { figures, sample in
            figures[sample.key] = [
                "median": samples.median(sample.key) ?? 0, "least": sample.value.min() ?? 0,
                "most": sample.value.max() ?? 0, "runs": sample.value,
            ]
        }
    }

    /// All figures, and the ratios with their targets.
    func json() throws -> Data {
        let document: [String: Any] = [
            "machine": Machine.description, "connections": connections, "runs": runs, "figures": figures,
            "ratios": ratios.map { ratio -> [String: Any] in
                [
                    "name": ratio.name, "value": ratio.value, "bar": ratio.bar, "isAtLeast": ratio.isAtLeast,
                    "isWithin": ratio.isWithin,
                ]
            },
        ]
        return try JSONSerialization.data(withJSONObject: document, options: [.prettyPrinted, .sortedKeys])
    }
}

/// The machine that runs the bench.
enum Machine {
    static let processors = ProcessInfo.processInfo.activeProcessorCount

    static var description: String {
        let info = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)) ?? ""
        let model = info.split(separator: "\n").first { $0.hasPrefix("model name") }?.split(separator: ":").last ?? ""
        let load = (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8)) ?? ""
        return "\(processors) x\(model), load "
            + load.split(separator: " ").prefix(1).joined()
    }
}
