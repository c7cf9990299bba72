#if canImport(StoreKitTest) || STOREKIT_STUB
    import Foundation
    import SubledgerClient
    import Testing

    #if canImport(StoreKitTest)
        import StoreKit
        import StoreKitTest
    #endif

    #if canImport(StoreKitTest)
        private let isOnMac = true
    #else
        private let isOnMac = false
    #endif

    /// The client with StoreKit's own test session. StoreKit needs a host app, so the file belongs in the unit tests of an
    /// app in Xcode; it uses nothing else of these tests. On Linux it is compiled against a stub, and has not run anywhere.
    @Suite(
        "With StoreKit's test session, no purchase is finished before it was handed in", .serialized,
        .enabled(if: isOnMac))
    struct StoreKitSessionTests {
        private static let user = UUID()

        /// One subscription and one consumable, as Xcode writes them.
        private static let products = """
            {"identifier":"5B1A7C20","nonRenewingSubscriptions":[],"products":[{"displayPrice":"0.99",\
            "familyShareable":false,"internalID":"6C000001","localizations":[{"description":"","displayName":"Coins",\
            "locale":"en_US"}],"productID":"coins","referenceName":"coins","type":"Consumable"}],"settings":{},\
            "subscriptionGroups":[{"id":"21000001","localizations":[],"name":"Pro","subscriptions":[{"adHocOffers":[],\
            "codeOffers":[],"displayPrice":"4.99","familyShareable":false,"groupNumber":1,"internalID":"6C000002",\
            "introductoryOffer":null,"localizations":[{"description":"","displayName":"Pro","locale":"en_US"}],\
            "productID":"pro.monthly","recurringSubscriptionPeriod":"P1M","referenceName":"pro.monthly",\
            "subscriptionGroupID":"21000001","type":"RecurringSubscription"}]}],"version":{"major":3,"minor":0}}
            """

        /// A store without purchases, a server in memory, and a client that has not started.
        private struct App {
            let session: SKTestSession
            let server = RecordingServer()
            private let folder: URL

            init() throws {
                folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())")
                try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
                let file = folder.appendingPathComponent("Products.storekit")
                try Data(StoreKitSessionTests.products.utf8).write(to: file)
                session = try SKTestSession(contentsOf: file)
                session.resetToDefaultState()
                session.disableDialogs = true
                session.clearTransactions()
            }

            /// A launch of the app.
            func client() -> Subledger {
                Subledger(
                    Configuration(app: "com.example.app", keys: [], products: ["pro.monthly": ["pro"]]),
                    store: StoreKitStore.shared, transport: server, cache: FileCache(folder: folder))
            }
        }

        /// Stores every text, and answers no question about entitlements.
        ///
        /// Unchecked: the lock guards all variables.
        private final class RecordingServer: Transport, @unchecked Sendable {
            private let lock = NSLock()
            private var isAway = false
            private var texts: [String] = []

            struct Away: Error {}

            var stored: [String] { lock.withLock { texts } }

            func setAway(_ isAway: Bool) { lock.withLock { self.isAway = isAway } }

            func send(_ request: ClientRequest) async throws -> ClientResponse {
                try lock.withLock {
                    guard !isAway else { throw Away() }
                    guard request.method == "POST" else { return ClientResponse(status: 503) }
                    let body = try JSONSerialization.jsonObject(with: request.body ?? Data()) as? [String: Any]
                    for text in body?["signedTransaction"] as? [String] ?? [] where !texts.contains(text) {
                        texts.append(text)
                    }
                    return ClientResponse(status: 200, body: Data(#"{"environment":"xcode","entitlements":[]}"#.utf8))
                }
            }
        }

        /// Waits for what StoreKit does by itself.
        private func eventually(_ what: String, _ look: () async -> Bool) async throws {
            for _ in 0..<600 {
                if await look() { return }
                try await Task.sleep(nanoseconds: 50_000_000)
            }
            Issue.record("did not happen: \(what)")
        }

        @Test("a purchase has the user's token, and is given again until it is finished")
        func purchase() async throws {
            let app = try App()
            let outcome = try await StoreKitStore.shared.purchase(
                "pro.monthly", by: Self.user, options: PurchaseOptions())

            guard case .bought(let transaction) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(transaction.appAccountToken == Self.user)
            #expect(transaction.isVerified && transaction.productId == "pro.monthly")
            #expect(await StoreKitStore.shared.unfinished().map(\.id) == [transaction.id])
            await StoreKitStore.shared.finish(transaction)
            #expect(await StoreKitStore.shared.unfinished() == [])
            app.session.clearTransactions()
        }

        @Test("without the server, a purchase stays unfinished; the next launch hands it in and finishes it")
        func away() async throws {
            let app = try App()
            app.server.setAway(true)
            let first = app.client()
            try await first.start(user: Self.user, assertion: NoAssertion())
            let offline = try await first.purchase("pro.monthly")
            let unfinished = await StoreKitStore.shared.unfinished()
            app.server.setAway(false)
            let second = app.client()
            try await second.start(user: Self.user, assertion: NoAssertion())

            #expect(offline.isActive("pro"))
            #expect(unfinished.count == 1)
            try await eventually("the purchase is stored") { app.server.stored == unfinished.map(\.text) }
            try await eventually("the purchase is finished") { await StoreKitStore.shared.unfinished() == [] }
        }

        @Test("a purchase that a parent approves later is handed in then")
        func askToBuy() async throws {
            let app = try App()
            app.session.askToBuyEnabled = true
            let client = app.client()
            try await client.start(user: Self.user, assertion: NoAssertion())
            await #expect(throws: SubledgerError.purchasePending) { try await client.purchase("pro.monthly") }
            let before = app.server.stored
            let pending = try #require(app.session.allTransactions().first { $0.pendingAskToBuyConfirmation })
            try app.session.approveAskToBuyTransaction(identifier: pending.identifier)

            #expect(before == [])
            try await eventually("the purchase is stored") { app.server.stored.count == 1 }
            try await eventually("the purchase is finished") { await StoreKitStore.shared.unfinished() == [] }
        }

        @Test("a renewal and a refund are handed in as they happen")
        func changes() async throws {
            let app = try App()
            let client = app.client()
            try await client.start(user: Self.user, assertion: NoAssertion())
            _ = try await client.purchase("pro.monthly")
            let bought = app.server.stored
            try app.session.forceRenewalOfSubscription(productIdentifier: "pro.monthly")

            #expect(bought.count == 1)
            try await eventually("the renewal is stored") { app.server.stored.count == 2 }
            let renewal = try #require(app.session.allTransactions().map(\.identifier).max())
            try app.session.refundTransaction(identifier: renewal)
            try await eventually("the refund is stored") { app.server.stored.count == 3 }
        }

        @Test("a consumable is handed in each time it is bought")
        func consumables() async throws {
            let app = try App()
            let client = app.client()
            try await client.start(user: Self.user, assertion: NoAssertion())
            for _ in 0..<3 { _ = try await client.purchase("coins") }

            #expect(Set(app.server.stored).count == 3)
            #expect(await StoreKitStore.shared.unfinished() == [])
        }
    }
#endif
