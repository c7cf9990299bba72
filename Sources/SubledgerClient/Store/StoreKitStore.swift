#if canImport(StoreKit) || STOREKIT_STUB
    import Foundation

    #if canImport(StoreKit)
        import StoreKit
    #else
        import SubledgerClient
    #endif

    /// StoreKit 2, on Apple's systems.
    ///
    /// Written from Apple's documentation, and compiled on Linux only, against a stub of the declarations that it uses: it
    /// has not been compiled or run with Apple's frameworks.
    public final class StoreKitStore: Store {
        /// The one for the app: StoreKit has one queue of transactions.
        public static let shared = StoreKitStore()

        private init() {}

        public func products(_ ids: Set<String>) async throws -> [StoreProduct] {
            try await Product.products(for: ids).map { product in
                StoreProduct(id: product.id, displayName: product.displayName, displayPrice: product.displayPrice)
            }
        }

        public func purchase(_ id: String, by user: UUID, options: PurchaseOptions) async throws -> PurchaseOutcome {
            guard let product = try await Product.products(for: [id]).first else { throw UnknownProduct(id: id) }
            let result = try await product.purchase(options: [.appAccountToken(user), .quantity(options.quantity)])
            switch result {
            case .success(let verification): return .bought(SignedTransaction(verification))
            case .pending: return .pending
            case .userCancelled: return .cancelled
            // What is bought otherwise arrives by the listener.
            @unknown default: return .pending
            }
        }

        public var updates: AsyncStream<SignedTransaction> {
            AsyncStream { continuation in
                let task = Task {
                    for await verification in Transaction.updates {
                        continuation.yield(SignedTransaction(verification))
                    }
                    continuation.finish()
                }
                continuation.onTermination = { _ in task.cancel() }
            }
        }

        public func unfinished() async -> [SignedTransaction] {
            var transactions: [SignedTransaction] = []
            for await verification in Transaction.unfinished { transactions.append(SignedTransaction(verification)) }
            return transactions.sorted { $0.purchaseDate < $1.purchaseDate }
        }

        public func current() async -> [SignedTransaction] {
            var transactions: [SignedTransaction] = []
            for await verification in Transaction.currentEntitlements {
                transactions.append(SignedTransaction(verification))
            }
            return transactions.sorted { $0.purchaseDate < $1.purchaseDate }
        }

        public func appTransaction() async throws -> String {
            guard #available(iOS 16, macOS 13, tvOS 16, watchOS 9, *) else { throw NoAppTransaction() }
            return try await AppTransaction.shared.jwsRepresentation
        }

        public func sync() async throws { try await AppStore.sync() }

        public func finish(_ transaction: SignedTransaction) async {
            for await verification in Transaction.unfinished {
                let known = verification.unsafePayloadValue
                // A refund has the id of its purchase and another text, which must be handed in first.
                guard String(known.id) == transaction.id, verification.jwsRepresentation == transaction.text else {
                    continue
                }
                await known.finish()
            }
        }

        /// The App Store has no such product for this app.
        public struct UnknownProduct: Error, Hashable {
            public let id: String
        }

        /// The system is older than the signed text about the purchase of the app.
        public struct NoAppTransaction: Error, Hashable {}
    }

    extension SignedTransaction {
        /// - Parameter verification: Its text is handed in whether or not the device could verify it.
        fileprivate init(_ verification: VerificationResult<Transaction>) {
            let transaction = verification.unsafePayloadValue
            let isVerified = if case .verified = verification { true } else { false }
            self.init(
                id: String(transaction.id), text: verification.jwsRepresentation, productId: transaction.productID,
                appAccountToken: transaction.appAccountToken, purchaseDate: transaction.purchaseDate,
                expirationDate: transaction.expirationDate, revocationDate: transaction.revocationDate,
                isVerified: isVerified)
        }
    }
#endif
