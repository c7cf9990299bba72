import Foundation
import SubledgerClient

/// A store that has what commands give it.
// Unchecked: the lock guards all variables.
final class GivenStore: Store, @unchecked Sendable {
    private let lock = NSLock()
    private let device: GivenDevice
    private let activity: Activity
    /// One for each id: the newest.
    private var transactions: [SignedTransaction] = []
    private var unfinishedTexts: Set<String> = []
    private var next: PurchaseOutcome?
    private var listener: AsyncStream<SignedTransaction>.Continuation?

    /// What no command gave the store.
    struct NothingForSale: Error {}

    init(_ device: GivenDevice, _ activity: Activity) {
        self.device = device
        self.activity = activity
    }

    // MARK: - What commands do

    /// What becomes of the next purchase; nil for none.
    func will(_ outcome: PurchaseOutcome?) { lock.withLock { next = outcome } }

    /// Has a transaction from now on, and gives it to the listener unless it is finished.
    func have(_ transaction: SignedTransaction, isFinished: Bool) {
        lock.withLock {
            add(transaction, isFinished: isFinished)
            if !isFinished { listener?.yield(transaction) }
        }
    }

    private func add(_ transaction: SignedTransaction, isFinished: Bool) {
        for known in transactions where known.id == transaction.id { unfinishedTexts.remove(known.text) }
        transactions.removeAll { $0.id == transaction.id }
        transactions.append(transaction)
        if !isFinished { unfinishedTexts.insert(transaction.text) }
    }

    var unfinishedIds: [String] { lock.withLock { transactions.filter(isUnfinished).map(\.id) } }

    private func isUnfinished(_ transaction: SignedTransaction) -> Bool { unfinishedTexts.contains(transaction.text) }

    // MARK: - What the client does

    func products(_ ids: Set<String>) async throws -> [StoreProduct] { [] }

    func purchase(_ id: String, by user: UUID, options: PurchaseOptions) async throws -> PurchaseOutcome {
        activity.note()
        return try lock.withLock {
            guard let next else { throw NothingForSale() }
            if case .bought(let transaction) = next { add(transaction, isFinished: false) }
            return next
        }
    }

    var updates: AsyncStream<SignedTransaction> {
        AsyncStream { continuation in
            lock.withLock {
                listener?.finish()
                listener = continuation
            }
        }
    }

    func unfinished() async -> [SignedTransaction] {
        activity.note()
        return lock.withLock { transactions.filter(isUnfinished) }
    }

    func current() async -> [SignedTransaction] {
        activity.note()
        let now = device.time
        return lock.withLock {
            transactions.filter { $0.revocationDate == nil && ($0.expirationDate.map { now < $0 } ?? true) }
        }
    }

    func appTransaction() async throws -> String { throw NothingForSale() }

    func sync() async throws { activity.note() }

    func finish(_ transaction: SignedTransaction) async {
        activity.note()
        Output.write(FinishedEvent(id: transaction.id, text: transaction.text))
        _ = lock.withLock { unfinishedTexts.remove(transaction.text) }
    }
}
