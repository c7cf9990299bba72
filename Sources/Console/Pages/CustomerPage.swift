import Encoding
import EventLog
import Readers
import Subscriptions

/// What a customer has, since when and by which evidence, with both clocks.
package struct CustomerPage: ConsolePage {
    package let id: String
    /// By today's knowledge.
    package let customer: ExplainedCustomer
    package let ties: [CustomerReader.Tie]
    package let tiesSQL: [ReadableSQL]
    /// The customer's subscriptions by what was known at ``knownAt``; empty if the id identified no customer then.
    package let lines: [ExplainedCustomers.OwnedLine]
    /// The customer to which the id leads now; nil if it is the same.
    package let today: CustomerKey?
    /// Where else the id is known.
    package let elsewhere: [SearchHit]
    /// The entitlements that are active there; without those that were not looked up.
    package let activeElsewhere: [SearchHit: [String]]
    /// The entitlements at ``at``, by what was known at ``knownAt``.
    package let entitlements: [Entitlement]
    /// Why the customer has them or not, the ones to be seen first at the front.
    package let explanations: [Explanation]
    /// The names of further entitlements, which are not explained on this page.
    package let unexplained: [String]
    package let at: Instant
    package let knownAt: Instant?
    /// The position of the last event received until ``knownAt``; nil for today's knowledge.
    package let knownHead: Int64?
    package let events: [StoredEvent]
    /// What the stores asked about refunds of the customer's purchases.
    package let refunds: [RefundRequest]
    package let names: ProductNames
    /// The stream of the joined app; nil if the customer has no part in one.
    package let joined: Joined?
    package let span: TimelineSpan
    /// The page with the parameters that the request had.
    package let address: Address
    package var done: String?
    /// What was searched for; nil if it is the id of the page, or if nothing was.
    package var found: String?
    /// The transaction that the search is about; nil if ``found`` says it.
    package var purchase: String?
    /// The entitlements that can be given by hand.
    package var offered: [String] = []
    /// The subscriptions that the customer gained or lost by links, by what was known at ``knownAt``.
    package var moves: [HistoryRow] = []

    /// What happened, with the subscription that it is about, if it is about one.
    package typealias HistoryRow = (entry: ChronicleEntry, subscription: String?, joinedApp: String?)

    package init(
        id: String, customer: ExplainedCustomer, ties: [CustomerReader.Tie], tiesSQL: [ReadableSQL],
        lines: [ExplainedCustomers.OwnedLine], today: CustomerKey?, elsewhere: [SearchHit],
        activeElsewhere: [SearchHit: [String]] = [:],
        entitlements: [Entitlement], explanations: [Explanation], unexplained: [String], at: Instant,
        knownAt: Instant?, knownHead: Int64?, events: [StoredEvent], refunds: [RefundRequest] = [], names: ProductNames,
        joined: Joined?,
        span: TimelineSpan, address: Address
    ) {
        self.id = id
        self.customer = customer
        self.ties = ties
        self.tiesSQL = tiesSQL
        self.lines = lines
        self.today = today
        self.elsewhere = elsewhere
        self.activeElsewhere = activeElsewhere
        self.entitlements = entitlements
        self.explanations = explanations
        self.unexplained = unexplained
        self.at = at
        self.knownAt = knownAt
        self.knownHead = knownHead
        self.events = events
        self.refunds = refunds
        self.names = names
        self.joined = joined
        self.span = span
        self.address = address
    }

    /// What the page needs of a joined app's stream.
    package struct Joined: Sendable {
        package let stream: StreamState
        package let events: [StoredEvent]
        /// See ``CustomerPage/knownHead``.
        package let knownHead: Int64?

        package init(stream: StreamState, events: [StoredEvent], knownHead: Int64?) {
            self.stream = stream
            self.events = events
            self.knownHead = knownHead
        }
    }

    /// Most pictures of a page; further subscriptions are in the table.
    static let picturesMax = 6
    /// Fewest marks in a lane of each of several pictures.
    private static let marksMin = 8
    /// Most entitlements that are named of a customer elsewhere.
    private static let namesMax = 6
    /// Most links to further entitlements, for a page below 100 KB.
    private static let unexplainedMax = 100

    package var title: String { "Customer" }
    /// What the customer is best known by.
    package var subject: String? { customer.customer.id.text }
    package var section: ConsoleSection? { nil }
    package var tables: [ConsoleTable] { tables { $0.with("stream", $1 == nil ? streamText : joined?.stream.text) } }

    private var streamText: String? { address.query.first { $0.name == "stream" }?.value }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        ClocksForm(at: at, knownAt: knownAt, address: address).write(to: &html)
        writeOpenRefunds(frame, to: &html)
        writeFound(frame, to: &html)
        writeIdentity(frame, to: &html)
        writeEntitlements(frame, to: &html)
        GrantSection(
            customerId: customer.customer.kind == .link ? customer.customer.id.text : nil, customer.lines,
            offered: offered
        ).write(in: frame, to: &html)
        writePictures(frame, to: &html)
        writeTotals(frame, to: &html)
        for table in tables(here: { self.frame(frame, of: $1).here($0) }) { table.write(on: address, to: &html) }
    }

    /// The frame of a page about the stream of an app.
    private func frame(_ frame: PageFrame, of joinedApp: String?) -> PageFrame {
        joinedApp == nil ? frame : frame.of(joined?.stream)
    }

    /// A request that waits has a deadline of hours.
    private func writeOpenRefunds(_ frame: PageFrame, to html: inout HTMLWriter) {
        guard knownAt == nil else { return }
        for request in refunds where request.state(at: frame.now) == .waiting {
            html.element("p", [.class("note")]) { html in
                html.text("\(request.store.name) waits for an answer about a refund, until ")
                html.time(request.deadline, from: frame.now)
                html.text(": ")
                html.link("the request", request.page(in: stream(of: request)))
                html.text(".")
            }
        }
    }

    // MARK: - Identity

    /// The purchase with the id that was searched for, which is one of many on the page.
    private func writeFound(_ frame: PageFrame, to html: inout HTMLWriter) {
        guard let found else { return }
        let sought = purchase ?? found
        func isSought(_ row: Subscription.ResolvedTransaction) -> Bool {
            row.transaction.transactionId == sought || row.transaction.webOrderLineItemId == sought
        }
        let line = customer.lines.first { $0.subscription.transactions.contains(where: isSought) }
        let row = line?.subscription.transactions.first(where: isSought)
        html.element("p", [.class("note")]) { html in
            html.text("You searched for ")
            html.id(found)
            guard let line, let row else {
                html.text(", which is one of this customer’s.")
                return
            }
            let bought = row.transaction
            html.text(":")
            if let date = bought.purchaseDate {
                html.text(" ")
                html.time(date)
            }
            if let productId = bought.productId {
                html.text(" ")
                html.product(productId, name: names[productId])
            }
            if let price = bought.priceText { html.text(", \(price)") }
            html.text(", \(line.subscription.stateWords(of: row, at: at)). It is part of subscription ")
            let id = line.subscription.originalTransactionId
            html.idLink(id, self.frame(frame, of: line.joinedApp).subscription(id))
            html.text(".")
        }
    }

    /// Whose page this is, if the id does not say it by itself, and what else the id names.
    private func writeIdentity(_ frame: PageFrame, to html: inout HTMLWriter) {
        let customer = self.customer.customer
        if ByteString(id) != customer.id {
            html.element("p", [.class("note")]) { html in
                html.text("Id ")
                html.id(id)
                html.text(" is one of the customer’s. The customer is \(customer.kind.words) ")
                html.link(customer.id.text, frame.customer(customer.id.text, kind: customer.kind.rawValue))
                html.text(".")
            }
        }
        if let today {
            html.element("p", [.class("note")]) { html in
                html.text("Today the id leads to another customer: \(today.kind.words) ")
                html.link(today.id.text, frame.customer(today.id.text, kind: today.kind.rawValue))
                html.text(". What it bought since is on that page.")
            }
        }
        guard !elsewhere.isEmpty else { return }
        html.element("p", [.class("note")]) { html in
            html.text("The same id is also known elsewhere: ")
            for (index, hit) in elsewhere.enumerated() {
                if index > 0 { html.text(", ") }
                html.link("\(hit.kind) in \(hit.app), \(hit.environment)", hit.address)
                guard let active = activeElsewhere[hit], !active.isEmpty else { continue }
                let more = active.count > Self.namesMax ? ", …" : ""
                let names = active.prefix(Self.namesMax).joined(separator: ", ") + more
                html.text(", where ")
                html.element("strong", text: names)
                html.text(active.count == 1 ? " is active" : " are active")
            }
            html.text(".")
        }
    }

    // MARK: - Entitlements

    private func writeEntitlements(_ frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "entitlements")]) { html in
            html.element("h2", [.text(.id, "entitlements")], text: "Entitlements")
            guard !explanations.isEmpty else {
                html.element(
                    "p", [.class("empty")],
                    text: knownAt == nil
                        ? "No entitlement: no purchase of this customer gave access by then."
                        : "No entitlement was known: no event received by then gave access.")
                return
            }
            let granted = Dictionary(entitlements.map { ($0.entitlement, $0) }) { first, _ in first }
            let answers = explanations.map { explanation in
                let entitlement = granted[explanation.entitlement]
                return EntitlementAnswer(
                    explanation: explanation, since: entitlement.flatMap(since),
                    ended: entitlement.flatMap { $0.until <= at ? $0.until : nil }, joinedStream: joined?.stream)
            }
            html.element("ul", [.class("answers")]) { html in
                for answer in EntitlementAnswer.grouped(answers) { answer.write(in: frame, to: &html) }
            }
            writeUnexplained(to: &html)
        }
    }

    /// Each further entitlement is a link to the page that explains it.
    private func writeUnexplained(to html: inout HTMLWriter) {
        guard !unexplained.isEmpty else { return }
        html.element("details") { html in
            html.element("summary", text: "\(Int64(unexplained.count).grouped) further entitlements")
            html.element("p") { html in
                for (index, name) in unexplained.prefix(Self.unexplainedMax).enumerated() {
                    if index > 0 { html.text(", ") }
                    html.link(name, address.with("entitlement", name))
                }
                if unexplained.count > Self.unexplainedMax { html.text(", …") }
            }
        }
    }

    /// The start of the run of access that grants the entitlement; nil if its periods are not read.
    private func since(_ entitlement: Entitlement) -> Instant? {
        let ofJoined = Set(
            customer.lines.filter { $0.joinedApp != nil }.map(\.subscription.originalTransactionId))
        let positions = Set(entitlement.positions)
        let joinedPositions = Set(entitlement.joined?.positions ?? [])
        return lines.map(\.owned).flatMap { subscription in
            let positions = ofJoined.contains(subscription.originalTransactionId) ? joinedPositions : positions
            return subscription.access.filter { period in
                positions.contains(period.position) && period.productId.map(entitlement.productIds.contains) ?? false
            }
        }.map(\.start).min()
    }

    // MARK: - Pictures

    private func writePictures(_ frame: PageFrame, to html: inout HTMLWriter) {
        let pictures = min(max(customer.lines.count, 1), Self.picturesMax)
        let byActivity = customer.lines.sorted { ($0.positions.max() ?? 0) > ($1.positions.max() ?? 0) }
        let drawn = byActivity.prefix(Self.picturesMax).map { owned in
            let subscription = owned.subscription
            return (
                owned,
                Timeline(
                    subscription,
                    events: (owned.joinedApp == nil ? events : joined?.events ?? []).filter {
                        owned.positions.contains($0.position)
                    }, at: at, now: frame.now,
                    known: knownAt.map { Timeline.Known(at: $0, subscription: past(subscription)) }, span: span,
                    owned: owned.intervals.map(\.interval),
                    marksMax: max(Timeline.marksMax / pictures, Self.marksMin))
            )
        }
        html.element("section", [.text(.labelledby, "picture")]) { html in
            span.writeCaption(isPart: drawn.contains { $0.1.isPart }, address, to: &html)
            if byActivity.isEmpty {
                html.element(
                    "p", [.class("empty")],
                    text: "This id is known, without a subscription. A purchase of it appears here once it is reported."
                )
            }
            for (number, (owned, timeline)) in drawn.enumerated() {
                let id = owned.subscription.originalTransactionId
                let frame = self.frame(frame, of: owned.joinedApp)
                html.element("div", [.class("line")]) { html in
                    html.element("h3") { html in
                        html.idLink(id, frame.subscription(id))
                        let words = [owned.subscription.storeName, statusWords(of: owned)].compactMap(\.self)
                        html.text(" \(words.joined(separator: ", "))\(owned.joinedApp.map { ", in \($0)" } ?? "")")
                    }
                    writeOwners(of: owned, frame, to: &html)
                    timeline.write(in: frame, page: address, number: number, to: &html)
                }
            }
            if !drawn.isEmpty { Timeline.writeLegend(of: drawn.map(\.1), to: &html) }
            if byActivity.count > Self.picturesMax {
                html.element(
                    "p", [.class("muted")],
                    text: "The \(Self.picturesMax) with the latest events; the table has all \(byActivity.count).")
            }
        }
    }

    /// Who had the subscription before the customer, and who has it since.
    private func writeOwners(
        of owned: ExplainedCustomers.OwnedLine, _ frame: PageFrame, to html: inout HTMLWriter
    ) {
        guard knownAt == nil else { return }
        let owners = [("It belonged to ", owned.previous, " until "), ("It belongs to ", owned.next, " since ")]
        for (verb, owner, time) in owners {
            guard let owner, owner.at <= at else { continue }
            html.element("p") { html in
                html.text("\(verb)\(owner.customer.kind.words) ")
                html.link(
                    owner.customer.id.text,
                    frame.customer(owner.customer.id.text, kind: owner.customer.kind.rawValue))
                html.text(time)
                html.time(owner.at)
                html.text(".")
            }
        }
    }

    /// Whether another customer has the subscription at the time of the page.
    func isLost(_ owned: ExplainedCustomers.OwnedLine) -> Bool { owned.next.map { $0.at <= at } ?? false }

    private func statusWords(of owned: ExplainedCustomers.OwnedLine) -> String {
        let subscription = owned.subscription
        guard knownAt != nil else {
            return isLost(owned) ? "no longer this customer’s" : subscription.status(at: at).words
        }
        return past(subscription).map { "\($0.status(at: at).words), as it was known" }
            ?? "was not known as this customer's"
    }

    func past(_ subscription: Subscription) -> Subscription? {
        lines.first { $0.subscription.originalTransactionId == subscription.originalTransactionId }?.owned
    }

    // MARK: - Totals

    private func writeTotals(_ frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "totals")]) { html in
            let isNow = abs(at.milliseconds - frame.now.milliseconds) < Self.nowMilliseconds
            html.element(
                "h2", [.text(.id, "totals")], text: isNow ? "Totals so far" : "Totals until \(at.longText) UTC")
            html.element("dl", [.class("tiles")]) { html in
                for (currency, sum) in paid.sorted(by: { $0.key < $1.key }) {
                    html.item("Paid, \(currency)") { html in
                        html.text(sum.paid.amount(in: currency))
                        if sum.refunded > 0 {
                            html.element(
                                "small", text: "of which refunded: \(sum.refunded.amount(in: currency))")
                        }
                    }
                }
                html.item("Last event received") { html in
                    guard let (event, joinedApp) = lastEvent else {
                        html.text("none")
                        return
                    }
                    html.time(event.receivedAt)
                    html.element("small") { html in
                        html.text("event ")
                        html.link("\(event.position)", self.frame(frame, of: joinedApp).event(event.position))
                        html.text(", \(event.words)")
                    }
                }
            }
        }
    }

    private static let nowMilliseconds: Int64 = 60_000

    /// By currency, what the customer paid while the subscription was the customer's.
    private var paid: [String: (paid: Int64, refunded: Int64)] {
        var paid: [String: (paid: Int64, refunded: Int64)] = [:]
        for line in lines {
            for row in line.subscription.transactions where !row.transaction.isPaidByAnother {
                guard let price = row.transaction.price, let bought = row.transaction.purchaseDate, bought <= at,
                    line.intervals.contains(where: { $0.interval.contains(bought) })
                else { continue }
                let currency = row.transaction.currency ?? "unknown currency"
                var sum = paid[currency] ?? (0, 0)
                sum.paid = sum.paid.addingReportingOverflow(price).partialValue
                let refunded = row.settled.refundedPart(of: price, at: at)
                sum.refunded = sum.refunded.addingReportingOverflow(refunded).partialValue
                paid[currency] = sum
            }
        }
        return paid
    }

    private var lastEvent: (event: StoredEvent, joinedApp: String?)? {
        let own = events.filter { isKnown($0.position, nil) }.map { (event: $0, joinedApp: String?.none) }
        let joined = self.joined?.events.filter { isKnown($0.position, customer.identity.joinedApp) }.map {
            (event: $0, joinedApp: customer.identity.joinedApp)
        }
        return (own + (joined ?? [])).filter { $0.event.receivedAt <= at }.max {
            ($0.event.receivedAt, $0.event.position) < ($1.event.receivedAt, $1.event.position)
        }
    }
}

extension CustomerKey.Kind {
    package var words: String {
        switch self {
        case .link: "your backend’s customer"
        case .account: "the app user with account token"
        case .appTransaction: "the store account with app transaction"
        case .subscription: "the store account of subscription"
        }
    }
}
