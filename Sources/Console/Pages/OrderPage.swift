import Encoding
import EventLog
import Readers
import Subscriptions

/// The purchases of an order that has several: what each is, and whose.
package struct OrderPage: ConsolePage {
    package let number: OrderNumber
    package let purchases: [Purchase]
    package let at: Instant
    package let address: Address

    package struct Purchase: Sendable {
        /// The customer.
        let hit: SearchHit
        /// Nil if it is not known.
        let subscription: Subscription?
        /// Those of the order; empty if the store names none.
        let transactionIds: [String]
        let names: ProductNames

        package init(hit: SearchHit, subscription: Subscription?, transactionIds: [String], names: ProductNames) {
            self.hit = hit
            self.subscription = subscription
            self.transactionIds = transactionIds
            self.names = names
        }
    }

    package init(number: OrderNumber, purchases: [Purchase], at: Instant, address: Address) {
        self.number = number
        self.purchases = purchases
        self.at = at
        self.address = address
    }

    package var title: String { "Order" }
    package var subject: String? { number.text }
    package var section: ConsoleSection? { nil }

    package var tables: [ConsoleTable] {
        [
            ConsoleTable(
                "purchases", caption: "Purchases in the order",
                columns: [
                    .init("Transaction"), .init("Bought"), .init("Product"), .init("Amount", isNumber: true),
                    .init("State"), .init("Subscription"), .init("Customer"), .init("App"),
                ],
                rows: purchases.flatMap(rows), empty: "None.", hasFile: false)
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        for table in tables { table.write(on: address, to: &html) }
    }

    private func rows(of purchase: Purchase) -> [[ConsoleTable.Cell]] {
        let links: [ConsoleTable.Cell] = [
            subscriptionCell(purchase), .link("the customer", purchase.hit.page(found: number.text)),
            .text(purchase.hit.app),
        ]
        let ids = purchase.transactionIds.isEmpty ? [number.text] : purchase.transactionIds
        let bought = purchase.subscription?.transactions.filter { ids.contains($0.transaction.transactionId) } ?? []
        guard let subscription = purchase.subscription, !bought.isEmpty else {
            let unknown: [ConsoleTable.Cell] = [.empty, .empty, .empty, .empty, .text("not known")]
            return [unknown + links]
        }
        return bought.map { row -> [ConsoleTable.Cell] in
            let own: [ConsoleTable.Cell] = [
                .code(row.transaction.transactionId), .optional(row.transaction.purchaseDate),
                .product(row.transaction.productId, purchase.names), .optional(row.transaction.priceText),
                .text(subscription.stateWords(of: row, at: at)),
            ]
            return own + links
        }
    }

    private func subscriptionCell(_ purchase: Purchase) -> ConsoleTable.Cell {
        guard case .customer(let id, _) = purchase.hit.target else { return .empty }
        let known = purchase.subscription?.originalTransactionId ?? id
        return .link(known, Address("subscriptions", known).with("stream", purchase.hit.stream))
    }
}

// MARK: - Words

extension Subscription {
    /// What has become of one of its transactions by an instant, such as `refunded on 3 Oct 2026 03:44 UTC`.
    func stateWords(of row: ResolvedTransaction, at instant: Instant) -> String {
        if let date = row.settled.revocationDate, date <= instant, let revocation = row.settled.revocation {
            return "\(revocation.words) on \(date.longText) UTC"
        }
        let period = access.first { $0.transactionId == row.transaction.transactionId && $0.cause != .grace }
        guard let period else { return "gives no access" }
        if instant < period.start { return "access begins on \(period.start.longText) UTC" }
        if period.end <= instant { return "access ended on \(period.end.longText) UTC" }
        return period.end == .latest ? "active, without an end" : "active until \(period.end.longText) UTC"
    }
}

extension Transaction.Revocation {
    fileprivate var words: String {
        switch self {
        case .refundedInFull: "refunded"
        case .refundedInPart, .unitsRefunded, .amountRefunded: "refunded in part"
        case .familyRevoked: "Family Sharing was revoked"
        case .assignmentRevoked: "the seat was taken back"
        case .endedEarly: "ended by the store"
        case .upgraded: "replaced by another purchase"
        case .unknown: "revoked"
        }
    }
}
