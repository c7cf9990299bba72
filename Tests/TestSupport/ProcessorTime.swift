import Foundation
import Postgres

/// Seconds of processor time that a process and the tests' database servers with all their backends have used.
package struct ProcessorTime: Sendable {
    package let own: Double
    /// By the server of ``TestCluster``, or by each node of ``CitusCluster``.
    package let nodes: [Double]

    package var database: Double { nodes.reduce(0, +) }

    /// - Parameter process: The process id; by default this process.
    /// - Throws: If the process or the cluster has ended.
    package static func now(of process: Int32 = getpid()) async throws -> ProcessorTime {
        let postmasters = try await postmasters()
        var nodes = [Double](repeating: 0, count: postmasters.count)
        for entry in try FileManager.default.contentsOfDirectory(atPath: "/proc") {
            guard let candidate = Int32(entry), let stat = Stat(candidate) else { continue }
            if let node = postmasters.firstIndex(of: candidate) {
                nodes[node] += stat.used + stat.usedByEnded
            } else if let node = postmasters.firstIndex(of: stat.parent) {
                nodes[node] += stat.used
            }
        }
        guard let own = Stat(process) else { throw Ended() }
        return ProcessorTime(own: own.used, nodes: nodes)
    }

    private static func postmasters() async throws -> [Int32] {
        if CitusCluster.isWanted { return try await CitusCluster.postmasters() }
        guard let postmaster = await (try TestCluster.server()).postmasterPID else { throw Ended() }
        return [postmaster]
    }

    package static func - (left: ProcessorTime, right: ProcessorTime) -> ProcessorTime {
        ProcessorTime(own: left.own - right.own, nodes: zip(left.nodes, right.nodes).map { $0 - $1 })
    }

    private struct Ended: Error {}

    /// The needed fields of `/proc/…/stat`; see proc(5).
    private struct Stat {
        let parent: Int32
        let used: Double
        /// Used by children that have ended.
        let usedByEnded: Double

        init?(_ process: Int32) {
            // The fields after the name, which may contain any character, and after the state.
            guard let line = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
                let name = line.lastIndex(of: ")")
            else { return nil }
            let fields = line[name...].dropFirst(2).split(separator: " ")
            guard fields.count > 14, let parent = Int32(fields[1]) else { return nil }
            let ticks = (11...14).map { Double(fields[$0]) ?? 0 }
            let perSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
            self.parent = parent
            used = (ticks[0] + ticks[1]) / perSecond
            usedByEnded = (ticks[2] + ticks[3]) / perSecond
        }
    }
}
