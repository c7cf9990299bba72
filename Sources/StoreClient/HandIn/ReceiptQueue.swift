import EventLog
import Logging

/// Asks about receipts that are pending until Apple has answered.
///
/// Any number of servers may run one: each claims receipts that no other asks about. A claim ends soon after
/// its server dies, so no receipt is forgotten.
package struct ReceiptQueue: Sendable {
    private let service: ReceiptHandIn
    private let clock: StoreClock
    private let logger: Logger

    package init(service: ReceiptHandIn, clock: StoreClock, logger: Logger) {
        self.service = service
        self.clock = clock
        self.logger = logger
    }

    private enum Occurrence {
        case asked
        case lookAgain
    }

    /// Asks until the task is cancelled. Questions in flight are abandoned then, and their receipts stay pending.
    package func run() async {
        await withTaskGroup(of: Occurrence.self) { group in
            var asking = 0
            group.addTask { await pause() }
            while let occurrence = await group.next() {
                guard !Task.isCancelled else { break }
                switch occurrence {
                case .asked: asking -= 1
                case .lookAgain: group.addTask { await pause() }
                }
                for claim in await due(limit: Limits.queueConcurrency - asking) {
                    asking += 1
                    group.addTask { await ask(claim) }
                }
            }
            group.cancelAll()
        }
    }

    private func pause() async -> Occurrence {
        try? await clock.sleep(clock.now() + Limits.queueInterval)
        return .lookAgain
    }

    private func due(limit: Int) async -> [ClaimedReceipt] {
        guard limit > 0 else { return [] }
        do throws(ReadError) {
            return try await service.claimDue(limit: limit)
        } catch {
            logger.debug("pending receipts not read", metadata: ["error": "\(error)"])
            return []
        }
    }

    private func ask(_ claim: ClaimedReceipt) async -> Occurrence {
        do {
            try await service.askAgain(claim)
        } catch {
            // It is asked about again when the claim ends. The types of errors contain nothing of the receipt.
            logger.warning(
                "receipt not stored", metadata: ["receipt.id": "\(claim.id)", "error": "\(type(of: error))"])
        }
        return .asked
    }
}
