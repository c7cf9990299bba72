import Foundation
import SubledgerClient

// The declarations of StoreKit 2 that the adapter uses, as Apple documents them, so that it is type-checked where StoreKit
// does not exist. Nothing here does anything.

enum VerificationResult<SignedType: Sendable>: Sendable {
    case unverified(SignedType, VerificationError)
    case verified(SignedType)

    struct VerificationError: Error {}

    var unsafePayloadValue: SignedType {
        switch self {
        case .unverified(let value, _), .verified(let value): value
        }
    }

    var jwsRepresentation: String { "" }
}

struct Transaction: Sendable {
    let id: UInt64
    let productID: String
    let appAccountToken: UUID?
    let purchaseDate: Date
    let expirationDate: Date?
    let revocationDate: Date?

    struct Transactions: AsyncSequence {
        typealias Element = VerificationResult<Transaction>

        struct AsyncIterator: AsyncIteratorProtocol {
            mutating func next() async -> VerificationResult<Transaction>? { nil }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator() }
    }

    static var updates: Transactions { Transactions() }
    static var unfinished: Transactions { Transactions() }
    static var currentEntitlements: Transactions { Transactions() }

    func finish() async {}
}

struct Product: Sendable {
    let id: String
    let displayName: String
    let displayPrice: String

    enum PurchaseResult {
        case success(VerificationResult<Transaction>)
        case userCancelled
        case pending
    }

    struct PurchaseOption: Hashable, Sendable {
        static func appAccountToken(_ token: UUID) -> PurchaseOption { PurchaseOption() }
        static func quantity(_ quantity: Int) -> PurchaseOption { PurchaseOption() }
    }

    static func products<Identifiers>(
        for identifiers: Identifiers
    ) async throws -> [Product] where Identifiers: Collection, Identifiers.Element == String {
        []
    }

    func purchase(options: Set<PurchaseOption> = []) async throws -> PurchaseResult { .userCancelled }
}

struct AppTransaction: Sendable {
    static var shared: VerificationResult<AppTransaction> {
        get async throws { .verified(AppTransaction()) }
    }
}

enum AppStore {
    static func sync() async throws {}
}

// The declarations of StoreKitTest that the tests for Xcode use.

final class SKTestSession {
    var disableDialogs = false
    var askToBuyEnabled = false

    init(contentsOf url: URL) throws {}

    func resetToDefaultState() {}
    func clearTransactions() {}
    func allTransactions() -> [SKTestTransaction] { [] }
    func approveAskToBuyTransaction(identifier: UInt) throws {}
    func refundTransaction(identifier: UInt) throws {}
    func forceRenewalOfSubscription(productIdentifier: String) throws {}
}

final class SKTestTransaction {
    let identifier: UInt = 0
    let productIdentifier = ""
    let pendingAskToBuyConfirmation = false
}
