import EventLog
import Logging

/// Asks about receipts that are pending until Apple has answered. Those that Apple did not sign, which anyone can hand in,
/// have some of the places: the others never wait for them.
///
/// Any number of servers may run one: each claims receipts that no other asks about. A claim ends soon after
/// its server dies, so no receipt is forgotten.
package struct ReceiptQueue: Sendable {
    private let service: ReceiptHandIn
    private let clock: StoreClock
    private let logger: Logger
    /// By whether Apple signed the receipt.
    private let underWay = UnderWay<Bool>()

    package init(service: ReceiptHandIn, clock: StoreClock, logger: Logger) {
        self.service = service
        self.clock = clock
        self.logger = logger
    }

    /// Asks until the task is cancelled. Questions in flight are abandoned then, and their receipts stay pending.
    package func run() async {
        async let keeping: Void = service.keepClaims()
        await underWay.repeating(
            "pending receipts not read", pause: .zero, clock, logger, orLookingEvery: Limits.queueInterval
        ) { _, start in
            for isSigned in [true, false] where places(isSigned: isSigned) > 0 {
                for claim in try await service.claimDue(isSigned: isSigned, limit: places(isSigned: isSigned)) {
                    underWay.ask(claim.id, of: isSigned, start) {
                        await ask(claim)
                        return true
                    }
                }
            }
            return Limits.queueInterval
        }
        await keeping
    }

    /// How many receipts can be asked about besides those that are.
    private func places(isSigned: Bool) -> Int {
        let unsigned = underWay.count(of: false)
        let all = Limits.queueConcurrency - underWay.count(of: true) - unsigned
        return isSigned ? all : min(all, Limits.unsignedQueueConcurrency - unsigned)
    }

    private func ask(_ claim: ClaimedReceipt) async {
        do {
            try await service.askAgain(claim)
        } catch {
            // It is asked about again when the claim ends. The types of errors contain nothing of the receipt.
            logger.warning(
                "receipt not stored", metadata: ["receipt.id": "\(claim.id)", "error": "\(type(of: error))"])
        }
    }
}
