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

    package init(service: ReceiptHandIn, clock: StoreClock, logger: Logger) {
        self.service = service
        self.clock = clock
        self.logger = logger
    }

    /// The receipts that are asked about.
    private struct Places {
        var signed = 0
        var unsigned = 0

        func free(isSigned: Bool) -> Int {
            let all = Limits.queueConcurrency - signed - unsigned
            return isSigned ? all : min(all, Limits.unsignedQueueConcurrency - unsigned)
        }
    }

    private enum Occurrence {
        case asked(isSigned: Bool)
        case lookAgain
    }

    /// Asks until the task is cancelled. Questions in flight are abandoned then, and their receipts stay pending.
    package func run() async {
        await withTaskGroup(of: Occurrence.self) { group in
            var asking = Places()
            var isReading = true
            group.addTask { await pause() }
            while let occurrence = await group.next() {
                guard !Task.isCancelled else { break }
                switch occurrence {
                case .asked(isSigned: true): asking.signed -= 1
                case .asked(isSigned: false): asking.unsigned -= 1
                case .lookAgain: group.addTask { await pause() }
                }
                do throws(ReadError) {
                    for isSigned in [true, false] {
                        for claim in try await due(isSigned: isSigned, limit: asking.free(isSigned: isSigned)) {
                            if isSigned { asking.signed += 1 } else { asking.unsigned += 1 }
                            group.addTask { await ask(claim) }
                        }
                    }
                    isReading = true
                } catch {
                    if isReading { logger.warning("pending receipts not read", metadata: ["error": "\(error)"]) }
                    isReading = false
                }
            }
            group.cancelAll()
        }
    }

    private func pause() async -> Occurrence {
        try? await clock.sleep(clock.now() + Limits.queueInterval)
        return .lookAgain
    }

    private func due(isSigned: Bool, limit: Int) async throws(ReadError) -> [ClaimedReceipt] {
        guard limit > 0 else { return [] }
        return try await service.claimDue(isSigned: isSigned, limit: limit)
    }

    private func ask(_ claim: ClaimedReceipt) async -> Occurrence {
        do {
            try await service.askAgain(claim)
        } catch {
            // It is asked about again when the claim ends. The types of errors contain nothing of the receipt.
            logger.warning(
                "receipt not stored", metadata: ["receipt.id": "\(claim.id)", "error": "\(type(of: error))"])
        }
        return .asked(isSigned: claim.isSigned)
    }
}
