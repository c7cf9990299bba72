import Foundation
import Postgres
import TestSupport

/// Seconds of processor time that this process and the database with all its backends have used.
struct ProcessorTime {
    let own: Double
    let database: Double

    static func now() async throws -> ProcessorTime {
        guard let postmaster = await (try TestCluster.server()).postmasterPID else { throw Unusable() }
        var database = 0.0
        for entry in try FileManager.default.contentsOfDirectory(atPath: "/proc") {
            guard let process = Int32(entry), let stat = Stat(process) else { continue }
            if process == postmaster {
                database += stat.used + stat.usedByEnded
            } else if stat.parent == postmaster {
                database += stat.used
            }
        }
        guard let own = Stat(getpid()) else { throw Unusable() }
        return ProcessorTime(own: own.used, database: database)
    }

    static func - (left: ProcessorTime, right: ProcessorTime) -> ProcessorTime {
        ProcessorTime(own: left.own - right.own, database: left.database - right.database)
    }

    /// A line of `/proc/…/stat`, as far as it is needed; see proc(5).
    private struct Stat {
        let parent: Int32
        let used: Double
        /// By children that have ended.
        let usedByEnded: Double

        init?(_ process: Int32) {
            // Behind the name, which may hold anything, and the field of the state.
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
