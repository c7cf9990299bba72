import Encoding
import EventLog
import Readers
import Subscriptions

/// What a customer has, since when and by which evidence, with both clocks.
package struct CustomerPage: ConsolePage {
    package let id: String
    package let record: CustomerReader.Record
    /// Nil if the id identified no customer then.
    package let history: CustomerReader.History?
    /// The entitlements at ``at``, by what was known at ``knownAt``.
    package let entitlements: [Entitlement]
    package let at: Instant
    package let knownAt: Instant?
    /// The customer's subscriptions by what was known; nil for today's knowledge.
    package let known: [Subscription]?
    package let events: [StoredEvent]
    package let span: Range<Instant>?
    /// The page with the parameters that the request had.
    package let address: Address

    package init(
        id: String, record: CustomerReader.Record, history: CustomerReader.History?, entitlements: [Entitlement],
        at: Instant, knownAt: Instant?, known: [Subscription]?, events: [StoredEvent], span: Range<Instant>?,
        address: Address
    ) {
        self.id = id
        self.record = record
        self.history = history
        self.entitlements = entitlements
        self.at = at
        self.knownAt = knownAt
        self.known = known
        self.events = events
        self.span = span
        self.address = address
    }

    /// Most pictures of a page; further subscriptions are in the table.
    static let picturesMax = 10

    package var title: String { "Customer \(id)" }
    package var section: ConsoleSection? { nil }
    package var tables: [ConsoleTable] { tables(here: { $0.with("stream", streamText) }) }

    private var streamText: String? { address.query.first { $0.name == "stream" }?.value }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        writeClocks(to: &html)
        if let knownAt {
            html.element("p", [.class("note")]) { html in
                html.text("As it was known at ")
                html.time(knownAt)
                html.text(". What was learned later is hatched in the pictures. ")
                html.link("What is known now", address.with("knownAt", nil))
            }
        }
        writeEntitlements(frame, to: &html)
        writePictures(frame, to: &html)
        writeTotals(to: &html)
        for table in tables(here: frame.here) { table.write(on: address, to: &html) }
    }

    private func writeClocks(to html: inout HTMLWriter) {
        html.element("form", [.action(address.withoutQuery), .class("clocks")]) { html in
            for pair in address.query where !["at", "knownAt", "csv"].contains(pair.name) {
                html.hidden(pair.name, pair.value)
            }
            for (name, label, value) in [
                ("at", "True at (UTC)", at), ("knownAt", "As known at (UTC)", knownAt),
            ] {
                html.element("label") { html in
                    html.text(label)
                    html.void(
                        "input",
                        [
                            .text(.name, name), .text(.type, "text"), .text(.placeholder, "now"),
                            .text(.value, value.map(\.shortText) ?? ""), .text(.autocomplete, "off"),
                        ])
                }
            }
            html.element("button", text: "Show")
            html.link("Now", address.with("at", nil).with("knownAt", nil).with("from", nil).with("to", nil))
        }
    }

    // MARK: - Entitlements

    private func writeEntitlements(_ frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "entitlements")]) { html in
            html.element("h2", [.text(.id, "entitlements")], text: "Entitlements")
            guard !entitlements.isEmpty else {
                html.element(
                    "p", [.class("empty")],
                    text: knownAt == nil
                        ? "No entitlement: no purchase of this customer gave access by then."
                        : "No entitlement was known: no event received by then gave access.")
                return
            }
            html.element("ul", [.class("answers")]) { html in
                for entitlement in entitlements {
                    html.element("li", [.class(entitlement.isActive(at: at) ? "active" : "ended")]) { html in
                        writeSentence(entitlement, frame, to: &html)
                    }
                }
            }
        }
    }

    /// `plus is active until 3 Oct 2026 03:44, by com.example.monthly of 2000… (events 3, 812).`
    private func writeSentence(_ entitlement: Entitlement, _ frame: PageFrame, to html: inout HTMLWriter) {
        html.element("p") { html in
            let verb =
                entitlement.isActive(at: at)
                ? entitlement.until < .latest ? "is active until" : "is active for ever"
                : "ended on"
            html.element("strong") { html in
                html.text("\(entitlement.entitlement) \(verb)")
                if entitlement.until < .latest { html.text(" \(entitlement.until.longText)") }
            }
            if entitlement.until < .latest {
                html.element("span", [.class("muted")], text: " (\(entitlement.until.words(from: frame.now)))")
            }
            if let since = since(entitlement) {
                html.text("\(entitlement.isActive(at: at) ? ", since" : ", it began on") \(since.longText)")
            }
        }
        html.element("p") { html in
            html.text("By \(entitlement.productIds.joined(separator: ", ")) of ")
            for (index, id) in entitlement.subscriptions.prefix(Self.picturesMax).enumerated() {
                if index > 0 { html.text(", ") }
                html.link(id, frame.subscription(id))
            }
            html.text("; reported by ")
            html.text(entitlement.positions.count == 1 ? "event " : "events ")
            for (index, position) in entitlement.positions.suffix(Self.picturesMax).enumerated() {
                if index > 0 { html.text(", ") }
                html.link("\(position)", frame.event(position))
            }
            html.text(".")
        }
        for id in entitlement.subscriptions.prefix(1) { writeNext(id, to: &html) }
    }

    /// The start of the run of access that grants the entitlement; nil if its periods are not read.
    private func since(_ entitlement: Entitlement) -> Instant? {
        let positions = Set(entitlement.positions)
        return shown.flatMap(\.access).filter { period in
            positions.contains(period.position) && period.productId.map(entitlement.productIds.contains) ?? false
        }.map(\.start).min()
    }

    /// The subscriptions by the knowledge for which the page answers, with the access of this customer.
    private var shown: [Subscription] {
        known ?? record.subscriptions.map { $0.subscription.owned(during: $0.intervals.map(\.interval)) }
    }

    /// What will happen next to the subscription that grants the entitlement.
    private func writeNext(_ id: String, to html: inout HTMLWriter) {
        guard let subscription = shown.first(where: { $0.originalTransactionId == id }) else { return }
        let renewal =
            switch subscription.renewal(at: at).autoRenewStatus {
            case true?: "renewal is on"
            case false?: "renewal is off"
            case nil: "renewal is not reported"
            }
        html.element("p", [.class("muted")]) { html in
            if let change = subscription.nextChange(after: at) {
                html.text("Next: ")
                html.time(change.at)
                html.text(", \(change.to.rawValue) unless something is reported; \(renewal).")
            } else {
                html.text("Nothing ends by itself; \(renewal).")
            }
        }
    }

    // MARK: - Pictures

    private func writePictures(_ frame: PageFrame, to html: inout HTMLWriter) {
        let byActivity = record.subscriptions.sorted { ($0.positions.max() ?? 0) > ($1.positions.max() ?? 0) }
        html.element("section", [.text(.labelledby, "picture")]) { html in
            html.element("div", [.class("caption")]) { html in
                html.element("h2", [.text(.id, "picture")], text: "Timeline")
                if span != nil { html.link("Whole time", address.with("from", nil).with("to", nil)) }
            }
            if byActivity.isEmpty {
                html.element("p", [.class("empty")], text: "This id is known, without a subscription.")
            }
            for (number, owned) in byActivity.prefix(Self.picturesMax).enumerated() {
                let subscription = owned.subscription
                html.element("div", [.class("line")]) { html in
                    html.element("h3") { html in
                        html.link(
                            subscription.originalTransactionId, frame.subscription(subscription.originalTransactionId))
                        html.text(" \(statusWords(of: subscription))")
                    }
                    Timeline(
                        subscription, events: events.filter { owned.positions.contains($0.position) }, at: at,
                        now: frame.now, known: knownAt.map { Timeline.Known(at: $0, subscription: past(subscription)) },
                        span: span
                    ).write(in: frame, page: address, number: number, to: &html)
                }
            }
            if byActivity.count > Self.picturesMax {
                html.element(
                    "p", [.class("muted")],
                    text: "The \(Self.picturesMax) with the latest events; the table has all \(byActivity.count).")
            }
        }
    }

    private func statusWords(of subscription: Subscription) -> String {
        guard knownAt != nil else { return subscription.status(at: at).words }
        return past(subscription).map { "\($0.status(at: at).words), as it was known" } ?? "was not known"
    }

    private func past(_ subscription: Subscription) -> Subscription? {
        known?.first { $0.originalTransactionId == subscription.originalTransactionId }
    }

    // MARK: - Totals

    private func writeTotals(to html: inout HTMLWriter) {
        var paid: [String: (paid: Int64, refunded: Int64)] = [:]
        for owned in record.subscriptions {
            for row in owned.subscription.transactions where !row.transaction.isFamilyShared {
                guard let price = row.transaction.price, (row.transaction.purchaseDate ?? .latest) <= at else {
                    continue
                }
                let currency = row.transaction.currency ?? "unknown currency"
                var sum = paid[currency] ?? (0, 0)
                sum.paid = sum.paid.addingReportingOverflow(price).partialValue
                if row.settled.isRefunded { sum.refunded = sum.refunded.addingReportingOverflow(price).partialValue }
                paid[currency] = sum
            }
        }
        guard !paid.isEmpty else { return }
        html.element("section", [.text(.labelledby, "totals")]) { html in
            html.element("h2", [.text(.id, "totals")], text: "Paid until then")
            html.element("dl", [.class("tiles")]) { html in
                for (currency, sum) in paid.sorted(by: { $0.key < $1.key }) {
                    html.item(currency) { html in
                        html.text(sum.paid.thousandths)
                        if sum.refunded > 0 {
                            html.element("small", text: "of which refunded: \(sum.refunded.thousandths)")
                        }
                    }
                }
            }
        }
    }
}
