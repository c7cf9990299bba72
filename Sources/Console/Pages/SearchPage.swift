import Encoding
import EventLog
import Readers
import Subscriptions

/// The result of a search that has none, or several.
package struct SearchPage: ConsolePage {
    package let text: String
    package let hits: [SearchHit]
    /// What distinguishes the hits from each other.
    package let details: [SearchHit: Detail]
    package let streams: Int
    /// The text as an order number; nil if it is none.
    package let order: Order?
    package let address: Address

    package struct Order: Sendable {
        let number: OrderNumber
        /// Whether the reader of the page can ask the store.
        let isAskable: Bool

        package init(number: OrderNumber, isAskable: Bool) {
            self.number = number
            self.isAskable = isAskable
        }
    }

    /// What a hit leads to.
    package struct Detail: Sendable {
        /// The products of a customer, or the type of an event.
        let what: String
        let status: String?
        let first: Instant?
        let last: Instant?

        /// - Parameter subscriptions: Those of a customer.
        package init(of subscriptions: [Subscription], at instant: Instant) {
            let bought = subscriptions.flatMap(\.transactions).map(\.transaction)
            let products = Set(bought.compactMap(\.productId)).sorted()
            what =
                products.prefix(Self.productsMax).joined(separator: ", ")
                + (products.count > Self.productsMax ? ", …" : "")
            let states = Set(subscriptions.map { $0.status(at: instant).rawValue }).sorted()
            status = states.isEmpty ? nil : states.joined(separator: ", ")
            first = bought.compactMap(\.purchaseDate).min()
            last = subscriptions.flatMap(\.access).map(\.end).max()
        }

        package init(of event: StoredEvent) {
            what = [event.type, event.subtype].compactMap(\.self).joined(separator: " ").nonEmpty ?? event.kind
            status = nil
            first = event.receivedAt
            last = nil
        }

        private static let productsMax = 3
    }

    package init(
        text: String, hits: [SearchHit], details: [SearchHit: Detail], streams: Int, order: Order? = nil,
        address: Address
    ) {
        self.text = text
        self.hits = hits
        self.details = details
        self.streams = streams
        self.order = order
        self.address = address
    }

    package var title: String {
        let id = text.shortenedID
        return hits.isEmpty ? "No id “\(id)”" : "\(hits.count) things have the id “\(id)”"
    }
    package var section: ConsoleSection? { nil }

    package var tables: [ConsoleTable] {
        [
            ConsoleTable(
                "hits", caption: "Found",
                columns: [
                    .init("Found as"), .init("Id"), .init("App"), .init("Environment"), .init("What"), .init("Status"),
                    .init("First"), .init("Until"),
                ],
                rows: hits.map { hit -> [ConsoleTable.Cell] in
                    let detail = details[hit]
                    return [
                        .text(hit.kind), .link(hit.label, hit.page(found: text)), .text(hit.app),
                        .text(hit.environment),
                        .optional(detail?.what.nonEmpty), .optional(detail?.status),
                        Self.day(detail?.first), Self.day(detail?.last),
                    ]
                }, empty: "Nothing.")
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        guard hits.isEmpty else {
            for table in tables { table.write(on: address, to: &html) }
            return
        }
        if let order { write(order, in: frame, to: &html) }
        html.element(
            "p",
            text:
                "Nobody and nothing has this id, in production or sandbox of any app (\(streams) searched). A search finds:"
        )
        html.element("ul") { html in
            for kind in Self.tried { html.element("li", text: kind) }
        }
        html.element(
            "p",
            text:
                "An id must be whole: a part of one finds nothing, and neither does a name or an e-mail address. A purchase is known once a notification, a receipt or signed data of it has arrived."
        )
    }

    private func write(_ order: Order, in frame: PageFrame, to html: inout HTMLWriter) {
        let name = order.number.store.name
        html.element("section", [.text(.labelledby, "order")]) { html in
            html.element("h2", [.text(.id, "order")], text: "Is it an order number?")
            html.element(
                "p",
                text: order.number.store == .apple
                    ? "Customers have the number from Apple’s receipt, and no purchase names it. "
                        + "Apple can be asked for the purchases of an order."
                    : "No stored purchase has this order. Google can be asked for its purchase.")
            guard order.isAskable else {
                html.element(
                    "p", [.class("muted")],
                    text: "Asking needs a token of scope operate, and a server that has the app’s key.")
                return
            }
            frame.form(Address("search"), to: &html) { html in
                html.hidden("q", order.number.text)
                html.element("button", [.class("primary")], text: "Ask \(name) about \(order.number.text)")
            }
        }
    }

    private static func day(_ instant: Instant?) -> ConsoleTable.Cell {
        guard let instant else { return .empty }
        return instant < .latest ? .code(instant.dayText) : .text("no end")
    }

    private static let tried = [
        "customers: your backend’s id of one, an account token, an app transaction",
        "purchases: a subscription, a transaction, a web order line item, an order of Google Play",
        "orders of the App Store, by their number on the receipt: Apple is asked, if you want it",
        "notifications and receipts: the UUID, or the SHA-256 of a receipt or of a purchase token of Google Play",
        "events, by their number", "products that have settings",
    ]
}

extension SearchHit {
    /// As in addresses.
    var stream: String { "\(environment):\(app)" }

    package var address: Address {
        switch target {
        case .customer(let id, let kind):
            return Address("customers", id).with("stream", stream).with("as", kind)
        case .event(let position): return Address("events", "\(position)").with("stream", stream)
        case .product: return Address("products").with("stream", stream)
        }
    }

    /// The page of a hit, which says what was searched for if it is about another id.
    package func page(found text: String) -> Address {
        guard case .customer(let id, _) = target, id.lowercased() != text.lowercased() else { return address }
        return address.with("found", text)
    }

    var label: String {
        switch target {
        case .customer(let id, _), .product(let id): id
        case .event(let position): "event \(position)"
        }
    }
}
