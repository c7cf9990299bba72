import Encoding
import EventLog
import Logging
import Metrics

/// Forgets what strangers handed in and the stores refused: receipts of which only the digest is kept, and purchases that
/// Google does not know. Nothing that a store has confirmed is forgotten.
///
/// Any number of processes may run one.
package struct HandInSweep: Sendable {
    private let purchases: PurchaseQueue
    private let receipts: HandInLog
    private let clock: StoreClock
    private let forgotten: CounterTable
    private let logger: Logger

    private enum Kind: String, CaseIterable {
        case purchase
        case receipt
    }

    /// - Parameter purchases: With the rights of `subledger_poller`, as well as `receipts`.
    package init(
        purchases: PurchaseQueue, receipts: HandInLog, clock: StoreClock,
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.purchases = purchases
        self.receipts = receipts
        self.clock = clock
        self.logger = logger
        forgotten = CounterTable(
            "subledger_hand_ins_forgotten_total", [MetricLabel("kind", Kind.allCases)], factory: factory)
    }

    /// Runs until its task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            do {
                try await round(at: clock.date())
            } catch {
                logger.debug("refused hand-ins not forgotten", metadata: ["error": "\(error)"])
            }
            try? await clock.sleep(clock.now() + Limits.handInSweepInterval)
        }
    }

    /// - Throws: ``ReadError``.
    package func round(at now: Instant) async throws(ReadError) {
        let before = now.advanced(by: .zero - Limits.refusedHandInsKept)
        try await forget(.purchase) { limit async throws(ReadError) in
            try await purchases.forgetUnknown(askedBefore: before, limit: limit)
        }
        try await forget(.receipt) { limit async throws(ReadError) in
            try await receipts.forgetRefused(askedBefore: before, limit: limit)
        }
    }

    private func forget(
        _ kind: Kind, _ batch: (Int64) async throws(ReadError) -> Int
    ) async throws(ReadError) {
        var count = Int(Limits.handInSweepBatch)
        while count == Int(Limits.handInSweepBatch), !Task.isCancelled {
            count = try await batch(Limits.handInSweepBatch)
            forgotten.increment([kind.rawValue], by: count)
        }
    }
}
