import Foundation

/// Where purchases are made: StoreKit on Apple's systems, a fake in tests.
///
/// One object must have one listener, because each element of ``updates`` reaches only one.
public protocol Store: AnyObject, Sendable {
    /// The products with these ids that the store knows.
    func products(_ ids: Set<String>) async throws -> [StoreProduct]

    /// Buys a product.
    ///
    /// - Parameter user: Becomes the purchase's `appAccountToken`.
    func purchase(_ id: String, by user: UUID, options: PurchaseOptions) async throws -> PurchaseOutcome

    /// Transactions that appear while the app runs: renewals, refunds, approvals, purchases on other devices. Read once.
    var updates: AsyncStream<SignedTransaction> { get }

    /// The transactions that were not finished, oldest first.
    func unfinished() async -> [SignedTransaction]

    /// The latest transaction of each product to which the store account is entitled, as far as the device knows.
    func current() async -> [SignedTransaction]

    /// The signed text about the purchase of the app itself.
    func appTransaction() async throws -> String

    /// Asks the store for transactions that the device does not have. It may ask the user for a password.
    func sync() async throws

    /// Tells the store that it need not deliver the transaction again.
    func finish(_ transaction: SignedTransaction) async
}

/// A product as the store describes it.
public struct StoreProduct: Sendable, Hashable, Identifiable {
    public let id: String
    public let displayName: String
    /// In the user's currency, with its sign.
    public let displayPrice: String

    public init(id: String, displayName: String, displayPrice: String) {
        self.id = id
        self.displayName = displayName
        self.displayPrice = displayPrice
    }
}

/// How to buy.
public struct PurchaseOptions: Sendable, Hashable {
    public var quantity: Int

    public init(quantity: Int = 1) {
        self.quantity = quantity
    }
}

public enum PurchaseOutcome: Sendable {
    case bought(SignedTransaction)
    /// Somebody else must approve it first, which may take days: then it is among ``Store/updates``.
    case pending
    case cancelled
}

/// A transaction as the store signed it, with what the device read from it.
public struct SignedTransaction: Sendable, Hashable, Identifiable {
    /// The transaction's id.
    public let id: String
    /// The text as the store signed it, which is handed in unchanged.
    public let text: String
    public let productId: String
    /// The user for whom it was bought; nil if it was bought outside of this library.
    public let appAccountToken: UUID?
    public let purchaseDate: Date
    /// Nil if the access that it grants has no end.
    public let expirationDate: Date?
    /// When it was refunded or revoked; nil if it was not.
    public let revocationDate: Date?
    /// Whether the device could verify the text. If not, it is handed in all the same, and grants nothing on the device.
    public let isVerified: Bool

    public init(
        id: String, text: String, productId: String, appAccountToken: UUID?, purchaseDate: Date,
        expirationDate: Date? = nil, revocationDate: Date? = nil, isVerified: Bool = true
    ) {
        self.id = id
        self.text = text
        self.productId = productId
        self.appAccountToken = appAccountToken
        self.purchaseDate = purchaseDate
        self.expirationDate = expirationDate
        self.revocationDate = revocationDate
        self.isVerified = isVerified
    }
}
