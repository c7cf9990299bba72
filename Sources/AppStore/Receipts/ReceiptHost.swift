import Subscriptions

/// One of Apple's two hosts of verifyReceipt. Each knows the receipts of its environment only.
package enum ReceiptHost: String, Sendable, CaseIterable {
    case production
    case sandbox

    package var environment: Environment {
        switch self {
        case .production: .production
        case .sandbox: .sandbox
        }
    }

    /// Nil for an environment that is not a store's.
    package init?(environment: Environment) {
        switch environment {
        case .production: self = .production
        case .sandbox: self = .sandbox
        default: return nil
        }
    }

    package var other: ReceiptHost {
        switch self {
        case .production: .sandbox
        case .sandbox: .production
        }
    }
}
