import Encoding
import Readers
import Subscriptions

extension CustomerPage {
    func tables(here: (Address, String?) -> Address) -> [ConsoleTable] {
        let refunds: [ConsoleTable] =
            self.refunds.isEmpty
            ? []
            : [
                .refunds(
                    self.refunds, name: "refunds", caption: "Refund requests", at: at,
                    stream: stream(of:), empty: "")
            ]
        return [subscriptionsTable(here), historyTable(here)] + refunds + [tiesTable(here)]
    }

    /// The stream of the page of a refund request.
    func stream(of request: RefundRequest) -> String? {
        request.stream.app == customer.identity.app
            ? address.query.first { $0.name == "stream" }?.value : joined?.stream.text
    }

    private func subscriptionsTable(_ here: (Address, String?) -> Address) -> ConsoleTable {
        ConsoleTable(
            "subscriptions", caption: "Subscriptions",
            columns: [
                .init("Subscription"), .init("Store"), .init("Status"), .init("Product"), .init("Access until"),
                .init("Renewal"), .init("Events", isNumber: true),
            ] + (joined == nil ? [] : [.init("App")]),
            rows: customer.lines.compactMap { owned in
                if let given = givenRow(owned, here) { return given }
                // Without the access of other owners.
                guard let subscription = past(owned.subscription) else { return nil }
                let isLost = knownAt == nil && self.isLost(owned)
                let last = isLost ? subscription.access.last?.productId : subscription.renewal(at: at).productId
                let product = subscription.period(at: at)?.productId ?? last
                let renewing: ConsoleTable.Cell =
                    isLost ? .empty : .text(subscription.isRenewing(at: at).map { $0 ? "on" : "off" } ?? "unknown")
                let id = subscription.originalTransactionId
                return [
                    .link(id, here(Address("subscriptions", id), owned.joinedApp).withClocks(of: address)),
                    .optional(subscription.storeName),
                    .text(isLost ? "belongs to another customer" : subscription.status(at: at).words),
                    .product(product, names),
                    .optional(subscription.accessEnd(at: at)),
                    renewing,
                    .number(Int64(owned.positions.count { isKnown($0, owned.joinedApp) })),
                ] + (joined == nil ? [] : [.text(owned.joinedApp ?? customer.identity.app)])
            },
            empty: knownAt == nil
                ? "None yet. A purchase appears when the store reports it, or when the app or a backend hands it in."
                : "No subscription was known.")
    }

    /// The row of what was given by hand, which no store renews; nil for a subscription of a store.
    private func givenRow(
        _ owned: ExplainedCustomers.OwnedLine, _ here: (Address, String?) -> Address
    ) -> [ConsoleTable.Cell]? {
        guard let given = past(owned.subscription), given.transactions.contains(where: \.transaction.isGranted)
        else { return nil }
        let id = given.originalTransactionId
        let app: [ConsoleTable.Cell] = joined == nil ? [] : [.text(owned.joinedApp ?? customer.identity.app)]
        return [
            .link(id, here(Address("subscriptions", id), owned.joinedApp).withClocks(of: address)),
            .optional(given.storeName), .text(given.status(at: at).words),
            .product(given.transactions.last?.transaction.productId, names), .optional(given.accessEnd(at: at)),
            .text("none: given by hand"), .number(Int64(owned.positions.count { isKnown($0, owned.joinedApp) })),
        ] + app
    }

    private var historyRows: [HistoryRow] {
        var rows = moves.filter { $0.entry.at <= at }
        for line in lines {
            for entry in line.chronicle(through: at) {
                rows.append((entry, line.subscription.originalTransactionId, line.joinedApp))
            }
        }
        for (notice, joinedApp) in customer.notices where notice.at <= at && isKnown(notice.position, joinedApp) {
            let named = notice.key.flatMap { $0.kind == .subscription ? $0.id.text : nil }
            let entry = ChronicleEntry(at: notice.at, what: notice.kind.words, position: notice.position)
            rows.append((entry, named, joinedApp))
        }
        return rows.sorted { left, right in
            (left.entry.at, left.entry.position ?? .max) > (right.entry.at, right.entry.position ?? .max)
        }
    }

    private func historyTable(_ here: (Address, String?) -> Address) -> ConsoleTable {
        ConsoleTable(
            "history", caption: "History",
            columns: [
                .init("At"), .init("What"), .init("Product"), .init("Amount", isNumber: true), .init("Until"),
                .init("Subscription"), .init("Event", isNumber: true),
            ],
            rows: historyRows.map { cells(of: $0, here) },
            empty: "Nothing began or ended by then: look at a later time, or at the ids below.")
    }

    private func cells(of row: HistoryRow, _ here: (Address, String?) -> Address) -> [ConsoleTable.Cell] {
        let entry = row.entry
        var subscription = ConsoleTable.Cell.empty
        if let id = row.subscription {
            subscription = .link(id, here(Address("subscriptions", id), row.joinedApp).withClocks(of: address))
        }
        var event: ConsoleTable.Cell = entry.isByClock ? .text("none: its time came") : .empty
        if let position = entry.position {
            event = .link(
                entry.isByClock ? "its time came, see \(position)" : "\(position)",
                here(Address("events", "\(position)"), row.joinedApp))
        }
        var what = ConsoleTable.Cell.text(entry.what)
        if let other = entry.other {
            let page = here(Address("customers", other.id.text), row.joinedApp).with("as", other.kind.rawValue)
            what = .phrase(
                "\(entry.what) \(other.kind.words)", .init(text: other.id.text, address: page.withClocks(of: address)))
        }
        return [
            .time(entry.at), what, .product(entry.productId, names), .optional(entry.amount?.words),
            .optional(entry.until), subscription, event,
        ]
    }

    private func tiesTable(_ here: (Address, String?) -> Address) -> ConsoleTable {
        ConsoleTable(
            "ids", caption: "Ids, and the event that ties each",
            columns: [.init("Kind"), .init("Id"), .init("Tied to"), .init("Event", isNumber: true)],
            rows: ties.filter { isKnown($0.position, $0.joinedApp) }.map { tie in
                [
                    .text(tie.kind.replacing("_", with: " ")),
                    .link(
                        tie.id,
                        here(Address("customers", tie.id), tie.joinedApp).with("as", tie.kind).withClocks(of: address)),
                    .code(tie.to),
                    .link("\(tie.position)", here(Address("events", "\(tie.position)"), tie.joinedApp)),
                ]
            }, empty: "No event ties another id to this one. A backend links its own id by PUT /customers.",
            sql: tiesSQL.map(\.text).joined(separator: "\n\n")
        )
    }

    /// Whether the event had been received at the instant whose knowledge counts.
    func isKnown(_ position: Int64, _ joinedApp: String?) -> Bool {
        (joinedApp == nil ? knownHead : joined?.knownHead).map { position <= $0 } ?? true
    }
}
