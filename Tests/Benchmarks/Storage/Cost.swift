import AppStore
import EventLog
import Foundation

/// Processor time per body in microseconds, one value for each round.
struct Cost {
    private var form: [Double] = []
    private var verification: [Double] = []

    private static let roundCount = 9
    private static let bodiesMax = 500

    static func measure(_ events: [MeasuredEvent], _ verifier: NotificationVerifier) async throws -> Cost {
        let events = events.prefix(bodiesMax)
        var cost = Cost()
        // Alternating, so that other load on the machine affects both.
        for _ in 0..<roundCount {
            var start = processorSeconds()
            for event in events { precondition(CompactBody(event.evidence).stored.count < event.bodyBytes) }
            cost.form.append((processorSeconds() - start) * 1e6 / Double(events.count))
            start = processorSeconds()
            for event in events { _ = try await verifier.verify(event.arrived, receivedAt: event.receivedAt) }
            cost.verification.append((processorSeconds() - start) * 1e6 / Double(events.count))
        }
        cost.form.sort()
        cost.verification.sort()
        return cost
    }

    func print() {
        let (form, verification) = (form[Self.roundCount / 2], verification[Self.roundCount / 2])
        Swift.print(
            String(
                format: "  compact form: %.1f us of processor time; decode and verify: %.1f us; ratio %.3f", form,
                verification, form / verification))
    }

    private static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
