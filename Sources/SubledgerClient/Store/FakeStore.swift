import Foundation

/// A store in memory, for tests, previews and samples: what would happen in the App Store happens when a test says so.
///
/// It keeps what it sold, so a test can throw the app's objects away and make new ones, as a restart does.
// Unchecked: the lock guards all variables.
public final class FakeStore: Store, @unchecked Sendable {
    private let lock = NSLock()
    private let clock: any TrustedClock
    private let sign: @Sendable (Sale) -> String
    private let plans: [String: Plan]
    private var sales: [Sale] = []
    private var unfinishedTexts: [String] = []
    private var outcomes: [NextOutcome] = []
    private var approvals: [Sale] = []
    private var listener: AsyncStream<SignedTransaction>.Continuation?
    private var count = 0
    /// A sale has one text, however often it is given.
    private var texts: [Sale: String] = [:]

    /// What is for sale.
    public struct Plan: Sendable {
        public let product: StoreProduct
        /// How long a purchase grants access; nil for ever.
        public let seconds: TimeInterval?

        public init(_ product: StoreProduct, seconds: TimeInterval?) {
            self.product = product
            self.seconds = seconds
        }
    }

    /// A purchase, a renewal, or a refund of one.
    public struct Sale: Sendable, Hashable {
        public let id: String
        public let productId: String
        public let user: UUID?
        public let purchaseDate: Date
        public let expirationDate: Date?
        public var revocationDate: Date?
        public var isVerified = true
    }

    /// What happens to the next purchase.
    public enum NextOutcome: Sendable {
        case bought
        /// Bought, and the device cannot verify the text.
        case unverified
        /// Waits for ``approve()``.
        case pending
        case cancelled
    }

    /// - Parameters:
    ///   - clock: For the dates of purchases, and for what is current.
    ///   - sign: The text of a transaction.
    public init(_ plans: [Plan], clock: any TrustedClock, sign: @escaping @Sendable (Sale) -> String) {
        self.plans = Dictionary(plans.map { ($0.product.id, $0) }) { $1 }
        self.clock = clock
        self.sign = sign
    }

    // MARK: - What the app calls

    public func products(_ ids: Set<String>) async throws -> [StoreProduct] {
        plans.values.map(\.product).filter { ids.contains($0.id) }.sorted { $0.id < $1.id }
    }

    public func purchase(_ id: String, by user: UUID, options: PurchaseOptions) async throws -> PurchaseOutcome {
        lock.withLock {
            let outcome = outcomes.isEmpty ? .bought : outcomes.removeFirst()
            switch outcome {
            case .cancelled: return .cancelled
            case .pending:
                approvals.append(sale(id, user))
                return .pending
            case .bought: return .bought(add(sale(id, user)))
            case .unverified:
                var sale = sale(id, user)
                sale.isVerified = false
                return .bought(add(sale))
            }
        }
    }

    public var updates: AsyncStream<SignedTransaction> {
        AsyncStream { continuation in
            lock.withLock {
                listener?.finish()
                listener = continuation
            }
        }
    }

    public func unfinished() async -> [SignedTransaction] {
        lock.withLock { sales.map(transaction).filter { unfinishedTexts.contains($0.text) } }
    }

    public func current() async -> [SignedTransaction] {
        let now = clock.now
        return lock.withLock {
            sales.filter { $0.revocationDate == nil && ($0.expirationDate.map { now < $0 } ?? true) }.map(transaction)
        }
    }

    public func appTransaction() async throws -> String { throw Unavailable() }

    public func sync() async throws {}

    public func finish(_ transaction: SignedTransaction) async {
        lock.withLock { unfinishedTexts.removeAll { $0 == transaction.text } }
    }

    /// A fake store sells no app.
    public struct Unavailable: Error {}

    // MARK: - What the test calls

    /// Sets what happens to the next purchases, in this order.
    public func will(_ outcomes: NextOutcome...) {
        lock.withLock { self.outcomes += outcomes }
    }

    /// Approves what is pending. The transactions appear among the updates.
    public func approve() {
        lock.withLock {
            for sale in approvals {
                listener?.yield(add(self.sale(sale.productId, sale.user)))
            }
            approvals = []
        }
    }

    /// Sells outside of the app's purchase: a renewal, another device, or a code of an offer, which knows no user.
    ///
    /// - Returns: The id of the transaction.
    @discardableResult
    public func sell(_ productId: String, to user: UUID?) -> String {
        lock.withLock {
            let transaction = add(sale(productId, user))
            listener?.yield(transaction)
            return transaction.id
        }
    }

    /// Refunds a purchase: its transaction appears among the updates, revoked, and is not finished any longer.
    public func refund(_ id: String) {
        lock.withLock {
            guard let index = sales.firstIndex(where: { $0.id == id }) else { return }
            let text = transaction(sales[index]).text
            unfinishedTexts.removeAll { $0 == text }
            sales[index].revocationDate = clock.now
            let revoked = transaction(sales[index])
            unfinishedTexts.append(revoked.text)
            listener?.yield(revoked)
        }
    }

    /// All sales, oldest first.
    public var allSales: [Sale] { lock.withLock { sales } }

    // MARK: - Making transactions

    private func sale(_ productId: String, _ user: UUID?) -> Sale {
        count += 1
        let now = clock.now
        return Sale(
            id: "\(count)", productId: productId, user: user, purchaseDate: now,
            expirationDate: plans[productId]?.seconds.map { now.addingTimeInterval($0) })
    }

    private func add(_ sale: Sale) -> SignedTransaction {
        sales.append(sale)
        let transaction = transaction(sale)
        unfinishedTexts.append(transaction.text)
        return transaction
    }

    private func transaction(_ sale: Sale) -> SignedTransaction {
        let text = texts[sale] ?? sign(sale)
        texts[sale] = text
        return SignedTransaction(
            id: sale.id, text: text, productId: sale.productId, appAccountToken: sale.user,
            purchaseDate: sale.purchaseDate, expirationDate: sale.expirationDate, revocationDate: sale.revocationDate,
            isVerified: sale.isVerified)
    }
}
