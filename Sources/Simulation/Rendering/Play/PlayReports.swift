import Encoding

/// Google's monthly reports about a run, from the simulator's own books: estimated sales by days in UTC, and earnings by days
/// in Pacific Time, without taxes.
///
/// Source: Google, Play Console Help, "Download and export monthly reports".
package struct PlayReports: Sendable {
    /// What was charged for a part of an order, or paid back.
    package struct Entry: Sendable, Hashable {
        package enum Kind: String, Sendable {
            case charged, refund, partialRefund
        }

        package var at: Instant
        package let kind: Kind
        package let orderId: String
        /// Google's product id.
        package let sku: String
        /// Nil for a one-time product.
        package let basePlanId: String?
        /// ISO 3166-1 alpha-2.
        package let country: String
        package let currency: String
        /// In thousandths of the currency's unit, with the tax.
        package let amount: Int64

        /// What Google pays out of it, before its fee: orders have a tax of a tenth.
        var untaxed: Int64 { amount - amount / 10 }
    }

    /// Oldest first. Test purchases are in no report, and neither is what costs nothing.
    package var entries: [Entry] = []
    private let packageName: String

    /// - Parameter acknowledged: When the server acknowledged purchases, by the number of the story and by purchase token.
    package init(_ simulation: PlaySimulation, acknowledged: [Int: [String: Instant]] = [:]) {
        packageName = simulation.packageName
        for index in 0..<simulation.count {
            let rendered = simulation.storyteller.story(at: index, acknowledged: acknowledged[index] ?? [:])
            guard !rendered.story.isTest else { continue }
            for life in rendered.subscriptions {
                for order in life.orders { add(order, life.customer) }
            }
            for life in rendered.oneTimePurchases {
                for order in life.orders { add(order, life.customer) }
            }
        }
        entries.sort { ($0.at, $0.orderId, $0.kind.rawValue) < ($1.at, $1.orderId, $1.kind.rawValue) }
    }

    private mutating func add(_ order: PlayOrder, _ customer: PlayCustomer) {
        guard let charged = order.changes.first(where: { $0.state == .processed }) else { return }
        func entry(_ item: PlayOrder.Item, _ kind: Entry.Kind, _ amount: Int64, at instant: Instant) -> Entry {
            Entry(
                at: instant, kind: kind, orderId: order.orderId, sku: item.productId, basePlanId: item.basePlanId,
                country: customer.region, currency: order.currency, amount: amount)
        }
        let paid = order.items.filter { $0.price > 0 }
        entries += paid.map { entry($0, .charged, $0.price, at: charged.at) }
        guard let first = paid.first else { return }
        entries += order.refunds.filter { $0.amount > 0 }.map {
            entry(first, $0.isPartial ? .partialRefund : .refund, $0.amount, at: $0.at)
        }
    }

    // MARK: - Files

    /// A file for each month and report, as name and content.
    package var files: [(name: String, content: String)] { sales + earnings }

    private var sales: [(name: String, content: String)] {
        files(named: "salesreport_", day: { String($0.description.prefix(10)) }, header: Self.salesHeader) {
            entry, day in
            let sign = entry.kind == .charged ? "" : "-"
            let status =
                switch entry.kind {
                case .charged: "Charged"
                case .refund: "Refund"
                case .partialRefund: "Partial refund"
                }
            let seconds = String(entry.at.milliseconds / 1000)
            let type = entry.basePlanId == nil ? "inapp" : "subscription"
            let price = sign + SalesReports.amount(entry.untaxed)
            let tax = sign + SalesReports.amount(entry.amount - entry.untaxed)
            let charged = sign + SalesReports.amount(entry.amount)
            let plan = entry.basePlanId ?? ""
            return [
                entry.orderId, day, seconds, status, "d2x", "Example", packageName, type, entry.sku, entry.currency,
                price,
                tax, charged, "", "", "", entry.country, plan, "",
            ]
        }
    }

    private var earnings: [(name: String, content: String)] {
        files(named: "earnings_", day: Self.pacificDay, header: Self.earningsHeader) { entry, day in
            let isCharge = entry.kind == .charged
            let amount = (isCharge ? "" : "-") + SalesReports.amount(entry.untaxed)
            let month = Self.months[(Int(day.dropFirst(5).prefix(2)) ?? 1) - 1]
            let date = "\"\(month) \(Int(day.suffix(2)) ?? 1), \(day.prefix(4))\""
            let type = isCharge ? "Charge" : "Charge refund"
            let refund =
                switch entry.kind {
                case .charged: ""
                case .refund: "Full"
                case .partialRefund: "Partial"
                }
            let plan = entry.basePlanId ?? ""
            return [
                entry.orderId, date, "1:20:34 PM PST", "", type, refund, "Example", packageName, "1", entry.sku, "a15",
                entry.country, "", "", entry.currency, amount, "1.000000", entry.currency, amount, plan,
            ]
        }
    }

    private func files(
        named name: String, day: (Instant) -> String, header: [String], row: (Entry, String) -> [String]
    ) -> [(name: String, content: String)] {
        let byMonth = Dictionary(grouping: entries) { String(day($0.at).prefix(7)) }
        return byMonth.sorted { $0.key < $1.key }.map { month, entries in
            let rows = entries.map { row($0, day($0.at)) }
            let lines = ([header] + rows).map { $0.joined(separator: ",") }
            return ("\(name)\(month.replacing("-", with: "")).csv", lines.joined(separator: "\n") + "\n")
        }
    }

    private static func pacificDay(_ instant: Instant) -> String {
        let digits = SalesReports.day(instant)
        return "\(digits.prefix(4))-\(digits.dropFirst(4).prefix(2))-\(digits.suffix(2))"
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    private static let salesHeader = [
        "Order Number", "Order Charged Date", "Order Charged Timestamp", "Financial Status", "Device Model",
        "Product Title", "Product ID", "Product Type", "SKU ID", "Currency of Sale", "Item Price", "Taxes Collected",
        "Charged Amount", "City of Buyer", "State of Buyer", "Postal Code of Buyer", "Country of Buyer", "Base Plan ID",
        "Offer ID",
    ]
    private static let earningsHeader = [
        "Description", "Transaction Date", "Transaction Time", "Tax Type", "Transaction Type", "Refund Type",
        "Product Title", "Product id", "Product Type", "Sku Id", "Hardware", "Buyer Country", "Buyer State",
        "Buyer Postal Code", "Buyer Currency", "Amount (Buyer Currency)", "Currency Conversion Rate",
        "Merchant Currency", "Amount (Merchant Currency)", "Base Plan ID",
    ]
}
