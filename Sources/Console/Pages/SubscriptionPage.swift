import Encoding
import EventLog
import Readers
import Subscriptions

/// One subscription in full: its periods, every version of each fact, and its events.
package struct SubscriptionPage: ConsolePage {
    package let app: String
    /// By what is known now.
    package let subscription: Subscription
    /// By what was known at ``knownAt``.
    package let known: SubscriptionReader.Known
    package let checks: SubscriptionChecks?
    /// What was asked of the store.
    package let writes: [SubscriptionWrite]
    /// The stores that can be asked about the app.
    package let stores: Set<RefundRequest.Store>
    /// Whose it is at ``at``, by what was known at ``knownAt``; nil if that is not known.
    package let customer: CustomerKey?
    /// Why its customer has the entitlements that it grants, or not.
    package let explanations: [Explanation]
    package let events: [StoredEvent]
    package let names: ProductNames
    package let at: Instant
    package let knownAt: Instant?
    package let span: TimelineSpan
    package let address: Address
    /// Whether a form that asked the store led here.
    package var followsAct = false
    /// Its owners, by what was known at ``knownAt``.
    package var owners: [Ownership] = []
    /// The changes of its owner by links, each with the time of its receipt.
    package var moves: [(move: ExplainedCustomers.LinkMove, at: Instant)] = []

    package init(
        app: String, subscription: Subscription, known: SubscriptionReader.Known, checks: SubscriptionChecks?,
        writes: [SubscriptionWrite] = [], stores: Set<RefundRequest.Store> = [], customer: CustomerKey?,
        explanations: [Explanation], events: [StoredEvent], names: ProductNames, at: Instant, knownAt: Instant?,
        span: TimelineSpan, address: Address
    ) {
        self.app = app
        self.subscription = subscription
        self.known = known
        self.checks = checks
        self.writes = writes
        self.stores = stores
        self.customer = customer
        self.explanations = explanations
        self.events = events
        self.names = names
        self.at = at
        self.knownAt = knownAt
        self.span = span
        self.address = address
    }

    private var facts: SubscriptionFacts { known.facts }
    private var shown: Subscription { known.subscription }
    package var title: String { "Subscription" }
    package var subject: String? { subscription.originalTransactionId }
    package var section: ConsoleSection? { nil }
    package var done: String? {
        guard followsAct, let asked = writes.last?.write else { return nil }
        return "\(asked.change.words): \(asked.answerWords)."
    }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }

    package var tables: [ConsoleTable] {
        [
            periodsTable, purchasesTable, renewalsTable, versionsTable,
        ] + (owners.isEmpty ? [] : [ownersTable]) + (facts.seats.isEmpty ? [] : [seatsTable]) + [
            .events(eventsThen, name: "events", stream: stream)
        ]
    }

    private var eventsThen: [StoredEvent] {
        events.filter { event in knownAt.map { event.receivedAt <= $0 } ?? true }
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        ClocksForm(at: at, knownAt: knownAt, address: address).write(to: &html)
        writeAnswer(frame, to: &html)
        writeExplanations(frame, to: &html)
        StoreActsSection(subscription: subscription, writes: writes, stores: stores).write(in: frame, to: &html)
        html.element("section", [.text(.labelledby, "picture")]) { html in
            let timeline = Timeline(
                subscription, events: events, at: at, now: frame.now,
                known: knownAt.map { Timeline.Known(at: $0, subscription: shown) }, span: span)
            span.writeCaption(isPart: timeline.isPart, address, to: &html)
            timeline.write(in: frame, page: address, number: 0, to: &html)
            Timeline.writeLegend(of: [timeline], to: &html)
        }
        for table in tables { table.write(on: address, to: &html) }
        html.element("section") { html in
            html.element("details") { html in
                html.element("summary", text: "Raw facts, from which all of this is computed")
                var writer = JSONWriter()
                facts.write(to: &writer)
                html.element("pre", [.text(.tabindex, "0"), .text(.role, "region"), .text(.label, "Raw facts")]) {
                    let text = writer.text
                    $0.element(
                        "code", text: text.utf8.count > Self.rawMax ? String(text.prefix(Self.rawMax)) + "…" : text)
                }
            }
        }
    }

    /// A page stays below 100 KB; the rest of the facts is in SQL.
    private static let rawMax = 6000

    private func writeAnswer(_ frame: PageFrame, to html: inout HTMLWriter) {
        let status = shown.status(at: at)
        let isActive = shown.isActive(at: at)
        html.element("ul", [.class("answers")]) { html in
            html.element("li", [.class(status == .grace ? "grace" : isActive ? "active" : "ended")]) { html in
                html.element("p") { html in
                    html.element("strong", text: status.words)
                    if let end = shown.accessEnd(at: at) {
                        html.text(end < .latest ? ", access until " : ", access without an end")
                        if end < .latest { html.time(end, from: frame.now) }
                    } else if let end = shown.access.last(where: { $0.end <= at })?.end {
                        html.text(", access ended on ")
                        html.time(end)
                    }
                }
                html.element("p") { html in
                    html.text("Whose it is: ")
                    let page = frame.customer(subscription.originalTransactionId, kind: "subscription")
                    if let customer {
                        html.text("\(customer.kind.words) ")
                        html.link(customer.id.text, page)
                    } else {
                        html.link("the customer", page)
                    }
                    html.text(".")
                }
                html.element("p", [.class("muted")]) { html in
                    writeNext(frame, to: &html)
                    if let next = checks?.next {
                        html.text(" The store is asked at ")
                        html.time(next.at)
                        html.text(".")
                    }
                }
            }
        }
    }

    /// The renewal or what else happens next, if the store reports nothing before.
    private func writeNext(_ frame: PageFrame, to html: inout HTMLWriter) {
        guard let change = shown.nextChange(after: at) else {
            html.text("No change is due: the status stays until something new is reported.")
            return
        }
        let isOpen = change.at > frame.now
        guard isOpen, change.renews else {
            html.text("Next: on ")
            if isOpen { html.time(change.at, from: frame.now) } else { html.time(change.at) }
            html.text(": \(change.to.words)\(isOpen ? ", if nothing new is reported before" : "").")
            return
        }
        let renewal = shown.renewal(at: change.at)
        html.text("Renews on ")
        html.time(change.at, from: frame.now)
        if let price = renewal.nextPrice { html.text(" for \(price.words)") }
        if renewal.priceIncreaseStatus == 0 { html.text(" if the customer consents to the price increase") }
        html.text("; access ends if it is not renewed.")
        guard let end = shown.plannedEnd(at: at) else { return }
        html.text(" The commitment is not renewed and ends on ")
        html.time(end, from: frame.now)
        html.text(".")
    }

    private func writeExplanations(_ frame: PageFrame, to html: inout HTMLWriter) {
        guard !explanations.isEmpty else { return }
        html.element("section", [.text(.labelledby, "entitlements")]) { html in
            html.element("h2", [.text(.id, "entitlements")], text: "Entitlements of its customer")
            html.element("ul", [.class("answers")]) { html in
                for explanation in explanations {
                    EntitlementAnswer(explanation: explanation, since: nil, ended: nil).write(in: frame, to: &html)
                }
            }
        }
    }

    private func link(_ position: Int64) -> ConsoleTable.Cell {
        .link("\(position)", Address("events", "\(position)").with("stream", stream))
    }

    private var periodsTable: ConsoleTable {
        let removed = shown.refunded.map { (period: $0, isRemoved: true) }
        let rows = (removed + shown.access.map { (period: $0, isRemoved: false) }).sorted {
            $0.period.start > $1.period.start
        }
        return ConsoleTable(
            "periods", caption: "Access",
            columns: [
                .init("From"), .init("To"), .init("Cause"), .init("Ended early"), .init("Product"),
                .init("Transaction"),
                .init("Event", isNumber: true),
            ],
            rows: rows.map { row in
                [
                    .time(row.period.start), .time(row.period.end),
                    .text(row.isRemoved ? "refunded: no access" : row.period.cause.rawValue),
                    .optional(row.period.cut?.rawValue.replacing("_", with: " ")),
                    .product(row.period.productId, names),
                    .code(row.period.transactionId), link(row.period.position),
                ]
            }, empty: "No access was ever paid for: the purchase may be pending, or refunded at once.")
    }

    private var purchasesTable: ConsoleTable {
        ConsoleTable(
            "transactions", caption: "Transactions",
            columns: [
                .init("Transaction"), .init("Bought"), .init("Expires"), .init("Product"),
                .init("Price", isNumber: true),
                .init("Revoked"), .init("Web order"), .init("Events"),
            ],
            rows: shown.transactions.reversed().map { row in
                let transaction = row.transaction
                return [
                    .code(transaction.transactionId), .optional(transaction.purchaseDate),
                    .optional(transaction.expiresDate), .product(transaction.productId, names),
                    .optional(transaction.priceText), .optional(row.settled.revocationDate),
                    .optional(transaction.webOrderLineItemId),
                    .links(
                        row.positions.map {
                            .init(text: "\($0)", address: Address("events", "\($0)").with("stream", stream))
                        }),
                ]
            }, empty: "No transaction is known, only the renewal.")
    }

    private var renewalsTable: ConsoleTable {
        ConsoleTable(
            "renewals", caption: "Renewal statements",
            columns: [
                .init("Stated at"), .init("Renewal"), .init("Retry"), .init("Grace until"), .init("Next product"),
                .init("Reason of the end"), .init("Signed"), .init("Event", isNumber: true),
            ],
            rows: shown.renewals.reversed().map { statement in
                let renewal = statement.renewal
                let reason = renewal.expirationIntent.map { words(ofIntent: $0, at: statement.statedAt) }
                return [
                    .time(statement.statedAt), .optional(statement.isRenewing.map { $0 ? "on" : "off" }),
                    .optional(renewal.isInBillingRetryPeriod.map { $0 ? "in retry" : "no" }),
                    .optional(renewal.gracePeriodExpiresDate), .product(renewal.autoRenewProductId, names),
                    .optional(reason),
                    .text(statement.isSigned ? "yes" : "no"),
                    link(statement.position),
                ]
            }, empty: "No renewal was reported.")
    }

    /// Apple's reasons, by their numbers. None of them is a refund: what ended with one is stated as cancelled.
    private func words(ofIntent number: Int, at instant: Instant) -> String {
        switch number {
        case 1: isRefunded(at: instant) ? "refunded (stated as cancelled)" : "cancelled by the customer"
        case 2: "billing error"
        case 3: "price not accepted"
        case 4: "not for sale"
        case 5: "other"
        default: "\(number)"
        }
    }

    /// Whether the last purchase made by the instant had been refunded by then.
    private func isRefunded(at instant: Instant) -> Bool {
        let last = shown.transactions.last { ($0.transaction.purchaseDate ?? .latest) <= instant }?.settled
        return last?.isRefunded == true && last?.revocationDate ?? .latest <= instant
    }

    /// Whose it is and was, the latest first.
    private var ownersTable: ConsoleTable {
        func owner(_ customer: CustomerKey) -> ConsoleTable.Cell {
            .phrase(
                customer.kind.words,
                .init(text: customer.id.text, address: page(of: customer).withClocks(of: address)))
        }
        let owning = owners.reversed().map { own -> [ConsoleTable.Cell] in
            [
                owner(own.owner), .text(own.reason.words),
                .optional(own.from == .earliest ? nil : own.from), .optional(own.until == .latest ? nil : own.until),
                own.position.map(link) ?? .empty,
            ]
        }
        let former = moves.reversed().map { move, at -> [ConsoleTable.Cell] in
            [
                owner(move.from), .text("lost it by a link, which counts for all time"), .empty, .time(at),
                link(move.position),
            ]
        }
        return ConsoleTable(
            "owners", caption: "Owners",
            columns: [
                .init("Customer"), .init("Why"), .init("From"), .init("To"), .init("Event", isNumber: true),
            ],
            rows: owning + former, empty: "None.")
    }

    /// Who has a seat, by what the backend stated.
    private var seatsTable: ConsoleTable {
        let seats = SeatClaims(of: facts)
        let waiting = seats.waiting.reversed().map { claim -> [ConsoleTable.Cell] in
            [
                .link(claim.customer.id.text, page(of: claim.customer)), .text("waits for a free seat"),
                .time(claim.claimedAt), .optional(Instant?.none), link(claim.position),
            ]
        }
        let held = seats.held.reversed().map { seat -> [ConsoleTable.Cell] in
            [
                .link(seat.customer.id.text, page(of: seat.customer)),
                .text(seat.until == .latest ? "has a seat" : "had a seat"), .time(seat.from),
                .optional(seat.until == .latest ? nil : seat.until), link(seat.position),
            ]
        }
        let number = shown.seats.map { "\($0)" } ?? "no"
        return ConsoleTable(
            "seats", caption: "Seats that the backend gave to customers, of \(number) that were bought",
            columns: [
                .init("Customer"), .init("State"), .init("From"), .init("To"), .init("Event", isNumber: true),
            ],
            rows: waiting + held, empty: "None.")
    }

    private func page(of member: CustomerKey) -> Address {
        Address("customers", member.id.text).with("stream", stream).with("as", member.kind.rawValue)
    }

    private var versionsTable: ConsoleTable {
        let versions = facts.transactions.sorted {
            ($0.value.position, $0.key.fact.transactionId) < ($1.value.position, $1.key.fact.transactionId)
        }
        return ConsoleTable(
            "versions", caption: "Every version of a transaction",
            columns: [
                .init("Transaction"), .init("Stated at"), .init("Received at"), .init("Signed"), .init("Expires"),
                .init("Revoked"), .init("First event", isNumber: true),
            ],
            rows: versions.map { fact, statement in
                [
                    .code(fact.fact.transactionId), .time(statement.statedAt), .time(statement.receivedAt),
                    .text(statement.isSigned ? "yes" : "no"), .optional(fact.fact.expiresDate),
                    .optional(fact.fact.revocationDate), link(statement.position),
                ]
            }, empty: "None.")
    }
}

extension Subscription {
    /// The store that sold it; nil if it was given by hand.
    var storeName: String? {
        if !purchases.isEmpty { return "Google Play" }
        return transactions.contains { $0.transaction.isGranted } ? nil : "App Store"
    }
}

extension Ownership.Reason {
    fileprivate var words: String {
        switch self {
        case .link: "a link names the subscription"
        case .account: "the account token of a purchase"
        case .storeAccount: "its store account"
        case .unclaimed: "nothing names a customer"
        case .seat: "a seat"
        }
    }
}

extension SubscriptionStatus {
    package var words: String {
        switch self {
        case .never: "not bought yet"
        case .active: "active"
        case .activeWillEnd: "active, renewal is off"
        case .grace: "in grace: the renewal failed, access continues"
        case .retry: "in billing retry, without access"
        case .expired: "expired"
        case .refunded: "refunded"
        case .revoked: "revoked"
        case .owned: "owned"
        case .hold: "on hold: the renewal failed, without access"
        case .paused: "paused by the customer"
        case .pending: "bought, not paid for yet"
        }
    }
}

extension ConsoleTable {
    /// A table of events.
    static func events(
        _ events: [StoredEvent], name: String, stream: String?, caption: String = "Events",
        empty: String = "No event.", sql: String? = nil, rowsMax: Int = Self.rowsMax
    ) -> ConsoleTable {
        ConsoleTable(
            name, caption: caption,
            columns: [
                .init("Position", isNumber: true), .init("Received"), .init("Occurred"), .init("Lag"), .init("Source"),
                .init("Type"), .init("Kind"), .init("Subscription"), .init("Defects", isNumber: true),
            ],
            rows: events.map { event in
                let facts = event.lines
                return [
                    .link("\(event.position)", Address("events", "\(event.position)").with("stream", stream)),
                    .time(event.receivedAt), .optional(event.occurredAt), .optional(event.lateText),
                    .text(event.source),
                    .optional([event.type, event.subtype].compactMap(\.self).joined(separator: " ").nonEmpty),
                    .text(event.kind.replacing("_", with: " ")),
                    .links(
                        facts.prefix(3).map {
                            .init(text: $0, address: Address("subscriptions", $0).with("stream", stream))
                        }),
                    .number(Int64(event.defectList.count)),
                ]
            }, empty: empty, sql: sql, rowsMax: rowsMax)
    }
}

extension String {
    var nonEmpty: String? { isEmpty ? nil : self }
}

extension StoredEvent {
    /// The subscriptions that the facts name, and the purchases of Google Play by their tokens, each once.
    package var lines: [String] {
        guard let root = try? JSONDocument(facts).root else { return [] }
        var seen: Set<String> = []
        var lines: [String] = []
        let lists: [(StaticString, StaticString)] = [
            ("transactions", "originalTransactionId"), ("renewals", "originalTransactionId"),
            ("accountDeletions", "originalTransactionId"), ("purchases", "purchaseToken"),
        ]
        for (list, member) in lists {
            for fact in root[list]?.elements ?? [] {
                guard let id = fact.string(member), seen.insert(id).inserted else { continue }
                lines.append(id)
            }
        }
        lines += root["erasure"]?["subscriptions"]?.elements.compactMap(\.string) ?? []
        lines += [root["seat"]?.string("originalTransactionId")].compactMap(\.self)
        return lines
    }

    var defectList: [(path: String, problem: String)] {
        guard let defects, let root = try? JSONDocument(defects).root else { return [] }
        return root.elements.map { ($0.string("path") ?? "", $0.string("problem") ?? "") }
    }
}
