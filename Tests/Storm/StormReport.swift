import Foundation
import Synchronization

/// Prints the progress of a storm and collects its problems.
final class StormReport: Sendable {
    private let state = Mutex(State())
    private let start = ContinuousClock.now

    private struct State {
        var problems: [String] = []
        var faults = 0
        var lost = 0
        var skipped = 0
    }

    /// Bounds the output, because one defect can cause many problems.
    private static let problemsShownMax = 40

    func log(_ line: String) {
        let seconds = Double((ContinuousClock.now - start).components.seconds)
        let rest = Double((ContinuousClock.now - start).components.attoseconds) / 1e18
        let text = String(format: "%7.2f  ", seconds + rest) + line + "\n"
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }

    /// Records a violated guarantee.
    func problem(_ line: String) {
        let count = state.withLock { state in
            state.problems.append(line)
            return state.problems.count
        }
        if count <= Self.problemsShownMax { log("PROBLEM: \(line)") }
    }

    func fault(_ line: String) {
        let number = state.withLock { state in
            state.faults += 1
            return state.faults
        }
        log("fault \(number): \(line)")
    }

    func addLost(_ count: Int) { state.withLock { $0.lost += count } }

    func addSkipped(_ count: Int) { state.withLock { $0.skipped += count } }

    var hasPassed: Bool { state.withLock { $0.problems.isEmpty && $0.lost == 0 && $0.skipped == 0 } }

    /// The last line of a storm.
    func verdict(seed: UInt64, sent: Int, acknowledged: Int) -> String {
        let (lost, skipped, faults) = state.withLock { ($0.lost, $0.skipped, $0.faults) }
        return "storm: verdict \(hasPassed ? "PASS" : "FAIL"), seed \(seed), sent \(sent), "
            + "acknowledged \(acknowledged), lost \(lost), skipped \(skipped), faults \(faults)\n"
    }
}
