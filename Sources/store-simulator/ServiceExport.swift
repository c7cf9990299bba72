import Encoding
import Server
import Simulation

/// The customers of the stores as a hosted service would export them, and as it would answer about them.
struct ServiceExport {
    private struct Purchase {
        let store: String
        /// The store's id of the first transaction; of Google Play, of the order, or the purchase token without one.
        let original: String
        let productId: String
        let isSandbox: Bool
    }

    private struct ExportedCustomer {
        var purchases: [Purchase] = []
        var books: [(access: AccessBook, owned: Range<Instant>)] = []
    }

    private var customers: [String: ExportedCustomer] = [:]
    private let at: Instant

    /// - Parameter instant: Whose owners are exported, and for which the access is written.
    init(_ simulation: Simulation?, _ google: PlaySimulation?, at instant: Instant) {
        at = instant
        if let simulation {
            for index in 0..<simulation.settings.subscriptions { add(simulation, story: index) }
        }
        if let google {
            for index in 0..<google.count { add(google, story: index) }
        }
    }

    private mutating func add(_ simulation: Simulation, story index: Int) {
        let rendered = simulation.storyteller.story(at: index)
        for (number, customer) in rendered.customers.enumerated() where customer.owns.contains(at) {
            var exported = customers["customer-\(index)-\(number)"] ?? ExportedCustomer()
            for subscription in customer.subscriptions.map({ rendered.subscriptions[$0] }) {
                exported.purchases.append(
                    Purchase(
                        store: "app_store", original: subscription.originalTransactionId,
                        productId: subscription.purchases.first?.product.id ?? "",
                        isSandbox: simulation.settings.app.environment == .sandbox))
                exported.books.append((subscription.access, SimulatedCustomer.always))
            }
            customers["customer-\(index)-\(number)"] = exported
        }
    }

    private mutating func add(_ google: PlaySimulation, story index: Int) {
        let rendered = google.storyteller.story(at: index)
        let tokens =
            rendered.subscriptions.map { $0.tokens.map(\.token) } + rendered.oneTimePurchases.map { [$0.token] }
        for (number, (key, tokens)) in zip(rendered.keys, tokens).enumerated() {
            let owner = key.owners(at: at, google.ownership).min()
            let id =
                owner == nil
                ? "customer-\(index)-google-\(number)"
                : owner == google.joinedAccountId(ofStory: index) ? "customer-\(index)-0" : "customer-\(owner ?? "")"
            var exported = customers[id] ?? ExportedCustomer()
            for token in tokens {
                let order = rendered.orders.first { $0.purchaseToken == token }
                exported.purchases.append(
                    Purchase(
                        store: "play_store", original: order?.orderId ?? token,
                        productId: order?.items.first?.productId ?? "", isSandbox: rendered.story.isTest))
            }
            if !rendered.story.isTest { exported.books.append((key.access, SimulatedCustomer.always)) }
            customers[id] = exported
        }
    }

    /// A row for each purchase, with the columns of RevenueCat's transactions feed that name it.
    func writePurchases(to name: String) throws {
        var file = try OutputFile(name)
        let columns = [
            "rc_original_app_user_id", "rc_last_seen_app_user_id_alias", "product_identifier", "store", "is_sandbox",
            "store_transaction_id", "original_store_transaction_id",
        ]
        try file.write(line: Array(columns.joined(separator: ",").utf8))
        for (number, (id, customer)) in customers.sorted(by: { $0.key < $1.key }).enumerated() {
            for purchase in customer.purchases {
                let fields = [
                    "$RCAnonymousID:\(number)", id, purchase.productId, purchase.store, "\(purchase.isSandbox)",
                    purchase.original, purchase.original,
                ]
                try file.write(line: Array(fields.joined(separator: ",").utf8))
            }
        }
        try file.flush()
    }

    /// A row for each entitlement of each customer, as `subledger compare-access` reads it.
    func writeAccess(to name: String) throws {
        var file = try OutputFile(name)
        try file.write(line: Array("customerId,entitlement,active,until".utf8))
        for (id, customer) in customers.sorted(by: { $0.key < $1.key }) {
            let book = EntitlementBook(customer.books)
            let names = Set(customer.books.flatMap(\.access.products).flatMap(\.entitlements)).sorted()
            for name in names {
                let answer = book.answer(name, at: at)
                let until = answer.active ? answer.until.map { "\($0)" } ?? "never" : ""
                try file.write(line: Array("\(id),\(name),\(answer.active),\(until)".utf8))
            }
        }
        try file.flush()
    }
}
