import Encoding
import Readers
import Subscriptions

extension CustomerPage {
    func tables(here: (Address, String?) -> Address) -> [ConsoleTable] {
        [subscriptionsTable(here), historyTable(here), tiesTable(here)]
    }

    private func subscriptionsTable(_ here: (Address, String?) -> Address) -> ConsoleTable {
        ConsoleTable(
            "subscriptions", caption: "Subscriptions",
            columns: [
                .init("Subscription"), .init("Status"), .init("Product"), .init("Access until"), .init("Renewal"),
                .init("Events", isNumber: true),
            ] + (joined == nil ? [] : [.init("App")]),
            rows: record.subscriptions.compactMap { owned in
                // Without the access of other owners.
                guard let subscription = past(owned.subscription) else { return nil }
                let renewal = subscription.renewal(at: at)
                let id = subscription.originalTransactionId
                return [
                    .link(id, here(Address("subscriptions", id), owned.joinedApp).withClocks(of: address)),
                    .text(subscription.status(at: at).words),
                    .optional(subscription.period(at: at)?.productId ?? renewal.productId),
                    .optional(subscription.accessEnd(at: at)),
                    .text(subscription.isRenewing(at: at).map { $0 ? "on" : "off" } ?? "unknown"),
                    .number(Int64(owned.positions.count { isKnown($0, owned.joinedApp) })),
                ] + (joined == nil ? [] : [.text(owned.joinedApp ?? record.identity.app)])
            }, empty: knownAt == nil ? "No subscription." : "No subscription was known.")
    }

    private func historyTable(_ here: (Address, String?) -> Address) -> ConsoleTable {
        let entries = lines.flatMap { line in
            line.chronicle(through: at).map { (entry: $0, line: line) }
        }.sorted { ($0.entry.at, $0.entry.position ?? .max) > ($1.entry.at, $1.entry.position ?? .max) }
        return ConsoleTable(
            "history", caption: "History",
            columns: [
                .init("At"), .init("What"), .init("Product"), .init("Until"), .init("Subscription"),
                .init("Event", isNumber: true),
            ],
            rows: entries.map { entry, line -> [ConsoleTable.Cell] in
                let id = line.subscription.originalTransactionId
                return [
                    .time(entry.at), .text(entry.what), .optional(entry.productId), .optional(entry.until),
                    .link(id, here(Address("subscriptions", id), line.joinedApp).withClocks(of: address)),
                    entry.position.map { position in
                        .link(
                            entry.isByClock ? "the clock, see \(position)" : "\(position)",
                            here(Address("events", "\(position)"), line.joinedApp))
                    } ?? (entry.isByClock ? .text("the clock") : .empty),
                ]
            }, empty: "Nothing began or ended by then.")
    }

    private func tiesTable(_ here: (Address, String?) -> Address) -> ConsoleTable {
        ConsoleTable(
            "ids", caption: "Ids, and the event that ties each",
            columns: [.init("Kind"), .init("Id"), .init("Tied to"), .init("Event", isNumber: true)],
            rows: record.ties.filter { isKnown($0.position, $0.joinedApp) }.map { tie in
                [
                    .text(tie.kind.replacing("_", with: " ")),
                    .link(
                        tie.id,
                        here(Address("customers", tie.id), tie.joinedApp).with("as", tie.kind).withClocks(of: address)),
                    .code(tie.to),
                    .link("\(tie.position)", here(Address("events", "\(tie.position)"), tie.joinedApp)),
                ]
            }, empty: "No event ties another id to this one.", sql: record.tiesSQL.map(\.text).joined(separator: "\n\n")
        )
    }

    /// Whether the event had been received at the instant whose knowledge counts.
    func isKnown(_ position: Int64, _ joinedApp: String?) -> Bool {
        (joinedApp == nil ? knownHead : joined?.knownHead).map { position <= $0 } ?? true
    }
}
