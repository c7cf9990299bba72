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
                // With all of its access, also that of other owners, unless the page is about another knowledge.
                guard let subscription = knownAt == nil ? owned.subscription : past(owned.subscription) else {
                    return nil
                }
                let renewal = subscription.renewal(at: at)
                let id = subscription.originalTransactionId
                return [
                    .link(id, here(Address("subscriptions", id), owned.joinedApp).withClocks(of: address)),
                    .text(subscription.status(at: at).rawValue),
                    .optional(subscription.period(at: at)?.productId ?? renewal.productId),
                    .optional(subscription.accessEnd(at: at)),
                    .text(renewal.autoRenewStatus.map { $0 ? "on" : "off" } ?? "unknown"),
                    .number(Int64(owned.positions.count { isKnown($0, owned.joinedApp) })),
                ] + (joined == nil ? [] : [.text(owned.joinedApp ?? record.identity.app)])
            }, empty: knownAt == nil ? "No subscription." : "No subscription was known.")
    }

    private func historyTable(_ here: (Address, String?) -> Address) -> ConsoleTable {
        ConsoleTable(
            "history", caption: history?.hasMore == true ? "History: the latest entries" : "History",
            columns: [
                .init("At"), .init("What"), .init("Product"), .init("Until"), .init("Subscription"),
                .init("Event", isNumber: true),
            ],
            rows: (changes + refunds).sorted { $0.at > $1.at }.map { change -> [ConsoleTable.Cell] in
                [
                    .time(change.at), .text(change.what), .optional(change.productId), .optional(change.until),
                    .link(
                        change.id, here(Address("subscriptions", change.id), change.joinedApp).withClocks(of: address)),
                    change.position.map { .link("\($0)", here(Address("events", "\($0)"), change.joinedApp)) }
                        ?? (change.isByClock ? .text("the clock") : .empty),
                ]
            }, empty: "Nothing began or ended by then.")
    }

    /// A row of the history.
    private struct Line {
        let at: Instant
        let what: String
        var productId: String?
        var until: Instant?
        let id: String
        let position: Int64?
        let joinedApp: String?
        var isByClock = false
    }

    /// By what was known: a purchase that is refunded by now gave access then.
    private var entries: [HistoryEntry] {
        let today = history?.entries ?? []
        guard let known else { return today }
        let always = OwnedInterval(Instant.earliest..<Instant.latest, position: nil, nextPosition: nil)
        return known.flatMap { subscription in
            let owned = owned(subscription)
            return subscription.history(
                ownedDuring: [always], through: at, endings: endings(of: owned)
            ).map { entry in
                var entry = entry
                entry.joinedApp = owned?.joinedApp
                return entry
            }
        } + today.filter { $0.isGain != nil }
    }

    private func owned(_ subscription: Subscription) -> OwnedSubscription? {
        record.subscriptions.first { $0.subscription.originalTransactionId == subscription.originalTransactionId }
    }

    /// Those that were known.
    private func endings(of owned: OwnedSubscription?) -> [Instant: Int64] {
        owned?.endings.filter { isKnown($0.value, owned?.joinedApp) } ?? [:]
    }

    private var changes: [Line] {
        entries.filter { isKnown($0) }.map { entry -> Line in
            let what =
                entry.isGain.map { $0 ? "subscription gained" : "subscription lost to another customer" }
                ?? entry.kind.rawValue.replacing("_", with: " ")
            return Line(
                at: entry.at, what: what, productId: entry.productId, until: entry.until,
                id: entry.originalTransactionId, position: entry.position, joinedApp: entry.joinedApp,
                isByClock: entry.isGain == nil)
        }
    }

    /// Purchases that count as never made: no period of theirs is among the changes.
    private var refunds: [Line] {
        (known ?? record.subscriptions.map(\.subscription)).flatMap { subscription -> [Line] in
            let owned = owned(subscription)
            let endings = endings(of: owned)
            return subscription.transactions.compactMap { row -> Line? in
                guard row.settled.isRefunded, let refunded = row.settled.revocationDate, refunded <= at else {
                    return nil
                }
                return Line(
                    at: refunded, what: "refunded: counts as never bought", productId: row.transaction.productId,
                    id: subscription.originalTransactionId, position: endings[refunded], joinedApp: owned?.joinedApp)
            }
        }
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
    private func isKnown(_ position: Int64, _ joinedApp: String?) -> Bool {
        (joinedApp == nil ? knownHead : joined?.knownHead).map { position <= $0 } ?? true
    }

    /// What only the clock causes was known once its time had come.
    private func isKnown(_ entry: HistoryEntry) -> Bool {
        entry.position.map { isKnown($0, entry.joinedApp) } ?? knownAt.map { entry.at <= $0 } ?? true
    }
}
