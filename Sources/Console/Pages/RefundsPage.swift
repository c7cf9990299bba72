import Encoding
import Readers
import Subscriptions

/// What the stores ask about refunds, with deadlines, answers and decisions: those that wait first.
package struct RefundsPage: ConsolePage {
    /// Those of the chosen stream.
    package let requests: [RefundRequest]
    /// The other streams in which a store waits for an answer.
    package let elsewhere: [Elsewhere]
    package let at: Instant
    package let address: Address

    package struct Elsewhere: Sendable {
        let stream: StreamState
        let requests: Int
        /// The nearest one.
        let deadline: Instant

        /// - Parameter requests: Those of the stream. Nil if no store waits for an answer to one.
        package init?(_ stream: StreamState, _ requests: [RefundRequest], at now: Instant) {
            let open = requests.filter { $0.awaitsAnswer(at: now) }
            guard let deadline = open.map(\.deadline).min() else { return nil }
            self.stream = stream
            self.requests = open.count
            self.deadline = deadline
        }
    }

    package init(requests: [RefundRequest], elsewhere: [Elsewhere] = [], at: Instant, address: Address) {
        self.requests = requests
        self.elsewhere = elsewhere.sorted { $0.deadline < $1.deadline }
        self.at = at
        self.address = address
    }

    package var title: String { "Refund requests" }
    package var section: ConsoleSection? { .refunds }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }
    private var streamWords: String? { stream?.replacing(":", with: " · ", maxReplacements: 1) }

    package var tables: [ConsoleTable] {
        let open = requests.filter { $0.awaitsAnswer(at: at) }.sorted { $0.deadline < $1.deadline }
        let others = requests.filter { !$0.awaitsAnswer(at: at) }.sorted { $0.receivedAt > $1.receivedAt }
        return [
            .refunds(
                open, name: "open", caption: "Waiting for an answer", at: at, stream: { _ in stream },
                empty: "No store waits for an answer\(streamWords.map { " about \($0)" } ?? "")."),
            .refunds(
                others, name: "past", caption: "Answered, decided or too late", at: at, stream: { _ in stream },
                empty: "None. Apple asks with CONSUMPTION_REQUEST, Google with PENDING_REFUND_REVIEW about chargebacks."
            ),
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        for other in elsewhere {
            html.element("p", [.class("note")]) { html in
                html.text("Answers are awaited in ")
                html.link(
                    "\(other.stream.environment) · \(other.stream.app)",
                    Address("refunds").with("stream", other.stream.text))
                html.text(" as well: \(Int64(other.requests).grouped), the nearest until ")
                html.time(other.deadline, from: frame.now)
                html.text(".")
            }
        }
        for table in tables { table.write(on: address, to: &html) }
    }
}

extension ConsoleTable {
    /// - Parameter stream: The stream whose page a request has.
    static func refunds(
        _ requests: [RefundRequest], name: String, caption: String, at: Instant, stream: (RefundRequest) -> String?,
        empty: String
    ) -> ConsoleTable {
        ConsoleTable(
            name, caption: caption,
            columns: [
                .init("Purchase"), .init("Store"), .init("Product"), .init("Reason"), .init("Asked"),
                .init("Answer until"), .init("Answer"), .init("Decision"),
            ],
            rows: requests.map { request in
                [
                    .link(request.purchase.transactionId, request.page(in: stream(request))),
                    .text(request.store.name), .optional(request.purchase.productId), .optional(request.reasonWords),
                    .optional(request.requestedAt), .time(request.deadline), .text(request.stateWords(at: at)),
                    .optional(request.decisionWords),
                ]
            }, empty: empty)
    }
}

/// One refund request, with its answer, and the form to answer it.
package struct RefundPage: ConsolePage {
    package let request: RefundRequest
    package let at: Instant
    /// Whether the server has what it takes to answer the store.
    package let canBeAnswered: Bool
    package let address: Address
    /// Whether a form that stated an answer led here.
    package var followsAct = false
    /// The transaction of the purchase; nil if it is not known.
    package var bought: Bought?

    package struct Bought: Sendable {
        let at: Instant?
        let amount: String?
        /// Whether Google says that it is a subscription.
        let isSubscription: Bool

        /// - Parameter subscription: The one of the transaction.
        package init(_ transaction: Transaction, of subscription: Subscription) {
            at = transaction.purchaseDate
            amount = transaction.priceText
            isSubscription = subscription.purchases.contains(where: \.isSubscription)
        }
    }

    package init(request: RefundRequest, at: Instant, canBeAnswered: Bool, address: Address) {
        self.request = request
        self.at = at
        self.canBeAnswered = canBeAnswered
        self.address = address
    }

    package var done: String? {
        guard followsAct, let answer = request.answer else { return nil }
        guard answer.content != nil else {
            return "Done: it is recorded that the customer has not consented, so \(request.store.name) is told nothing."
        }
        return answer.state == .pending
            ? "Done: the answer is recorded, and is sent to \(request.store.name) in a moment." : "Done."
    }
    package var title: String { "Refund request about \(request.purchase.transactionId)" }

    /// Why the store takes no share of the purchase as used; nil if it takes one. If the kind of the purchase is not known,
    /// it is left to the store.
    ///
    /// - Source: Apple, "consumptionPercentage"; Google, "Method: orders.reviewrefund", which takes it of an in-app purchase.
    private var percentageRefusal: String? {
        if request.purchase.isAdvancedCommerce { return "Apple takes none for purchases of the Advanced Commerce API" }
        switch request.store {
        case .apple:
            return request.purchase.productType == Transaction.ProductType.autoRenewable.rawValue
                ? "Apple computes it for a subscription that renews" : nil
        case .google: return bought?.isSubscription == true ? "Google takes it for one-time purchases" : nil
        }
    }

    /// Google knows no refund of a part.
    private var preferences: [ConsumptionAnswer.RefundPreference] {
        request.store == .google ? [.decline, .grantFull] : ConsumptionAnswer.RefundPreference.allCases
    }

    /// Why the form does not offer what an answer says; nil if it does.
    package func problem(with content: ConsumptionAnswer) -> String? {
        if content.percentage != nil, let percentageRefusal {
            return "“Used, in percent” must be empty: \(percentageRefusal)."
        }
        if let preference = content.preference, !preferences.contains(preference) {
            return "Google knows no refund of a part."
        }
        return nil
    }

    package var section: ConsoleSection? { .refunds }
    package var tables: [ConsoleTable] { [] }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        let purchase = request.purchase
        html.element("dl", [.class("facts")]) { html in
            html.item("Store") { $0.text(request.store.name) }
            html.item("Subscription") { html in
                guard let id = purchase.originalTransactionId else {
                    html.text("the order is not known here")
                    return
                }
                html.idLink(id, frame.subscription(id))
            }
            if let id = purchase.originalTransactionId {
                html.item("Customer") { $0.link("Open the customer", frame.customer(id, kind: "subscription")) }
            }
            html.item("Product") { $0.text(purchase.productId ?? "unknown") }
            html.item("Amount") { $0.text(bought?.amount ?? "unknown") }
            if let at = bought?.at { html.item("Bought") { $0.time(at, from: frame.now) } }
            html.item("Reason") { $0.text(request.reasonWords ?? "not stated") }
            html.item("Asked, by the date of \(request.store.name)") { html in
                if let asked = request.requestedAt {
                    html.time(asked, from: frame.now)
                } else {
                    html.text("not stated")
                }
                if request.requests > 1 { html.text(", \(request.requests) times") }
            }
            html.item("Received") { $0.time(request.receivedAt, from: frame.now) }
            html.item("Answer until") { $0.time(request.deadline, from: frame.now) }
            html.item("Decision") { $0.text(request.decisionWords ?? "none that is known") }
        }
        writeAnswer(to: &html)
        if request.awaitsAnswer(at: at) { writeForm(in: frame, to: &html) }
    }

    private func writeAnswer(to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "answer")]) { html in
            html.element("h2", [.text(.id, "answer")], text: "Answer: \(request.stateWords(at: at))")
            guard let answer = request.answer else { return }
            for words in answer.content?.words(for: request.store) ?? [
                "The customer has not consented, so nothing is sent."
            ] {
                html.element("p", text: words)
            }
            html.element("p", [.class("muted")]) { html in
                html.text(
                    "Stated by \(answer.authorWords) at ")
                html.time(answer.statedAt)
                if let asked = answer.askedAt {
                    html.text(", sent last at ")
                    html.time(asked)
                }
                html.text(answer.problem.map { ". Problem: \($0)." } ?? ".")
            }
        }
    }

    private func writeForm(in frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "state")]) { html in
            html.element("h2", [.text(.id, "state")], text: "Answer \(request.store.name)")
            guard frame.mayAct, canBeAnswered else {
                html.element(
                    "p", [.class("muted")],
                    text: canBeAnswered
                        ? "Answering needs a token of scope operate." : "This server has no key to answer the store.")
                return
            }
            guard request.answer != nil else { return writeFields(in: frame, to: &html) }
            html.element("details") { html in
                html.element("summary", text: "Answer differently")
                html.element("p", text: "This replaces the answer above, as long as \(request.store.name) has none.")
                writeFields(in: frame, to: &html)
            }
        }
    }

    private func writeFields(in frame: PageFrame, to html: inout HTMLWriter) {
        frame.form(Address("refunds", request.purchase.transactionId), to: &html) { html in
            html.hidden("store", request.store.rawValue)
            html.hidden("do", "answer")
            html.choice(
                "consented",
                "The customer has consented that \(request.store.name) is told how the purchase was used",
                [("", "choose"), ("yes", "yes"), ("no", "no")])
            html.choice(
                "sample", "Sample or trial before the purchase", [("", "choose"), ("no", "no"), ("yes", "yes")])
            html.choice(
                "delivery", request.store == .google ? "Delivered (recorded here, not sent)" : "Delivered",
                [("", "choose")] + ConsumptionAnswer.Delivery.allCases.map { ($0.rawValue, $0.words) })
            if percentageRefusal == nil { html.field("percentage", "Used, in percent, if known", isRequired: false) }
            html.choice(
                "preference", "You prefer",
                [("", "nothing")] + preferences.map { ($0.rawValue, $0.words) })
            html.element("button", text: "Answer…")
        }
    }
}

// MARK: - Words

extension RefundRequest {
    /// Its page.
    ///
    /// - Parameter stream: The stream whose page it is.
    func page(in stream: String?) -> Address {
        Address("refunds", purchase.transactionId).with("stream", stream).with("store", store.rawValue)
    }

    /// Whether an answer would still be taken.
    package func awaitsAnswer(at now: Instant) -> Bool {
        guard now < deadline, decision == nil else { return false }
        return switch state(at: now) {
        case .waiting, .pending, .refused, .noConsent: true
        case .unanswered, .accepted, .late: false
        }
    }

    func stateWords(at now: Instant) -> String {
        switch state(at: now) {
        case .waiting: "waiting"
        case .unanswered: "none in time"
        case .pending: "not sent yet"
        case .accepted:
            "\(store.name) has our answer" + (answer?.content.map { ": \($0.preferenceWords) preferred" } ?? "")
        case .refused: "refused: \(answer?.problem ?? "")"
        case .late: "too late"
        case .noConsent: "no consent: nothing is sent"
        }
    }

    var reasonWords: String? {
        switch (store, reason) {
        case (.google, "7"): "chargeback"
        case (_, let reason?): reason.replacing("_", with: " ").lowercased()
        case (_, nil): nil
        }
    }

    var decisionWords: String? {
        decision.map { decision in
            let words = "\(decision.isGranted ? "granted" : "declined") \(decision.decidedAt.shortText)"
            return words + (decision.reversedAt.map { ", reversed \($0.shortText)" } ?? "")
        }
    }
}

extension RefundRequest.Answer {
    fileprivate var authorWords: String {
        switch author {
        case .policy: "the policy of the product"
        case .backend: "the backend"
        case .operator: operatorName ?? "a person"
        }
    }
}

extension ConsumptionAnswer {
    fileprivate var preferenceWords: String { preference?.words ?? "nothing" }

    /// A sentence each.
    ///
    /// - Parameter store: The one that asks.
    package func words(for store: RefundRequest.Store) -> [String] {
        [
            isSampleProvided
                ? "The customer got a sample, a trial or information before the purchase."
                : "The customer got no sample or trial before the purchase.",
            "The purchase: \(delivery.words)\(store == .google ? " (recorded here, not sent)" : "").",
        ] + (percentage.map { ["Used: \($0 / 1000) percent."] } ?? [])
            + [preference.map { "You prefer: \($0.words)." } ?? "You have no preference."]
    }
}

extension ConsumptionAnswer.Delivery {
    var words: String {
        switch self {
        case .delivered: "delivered, and works"
        case .qualityIssue: "not delivered: quality"
        case .wrongItem: "not delivered: wrong item"
        case .serverOutage: "not delivered: outage"
        case .other: "not delivered: other"
        }
    }
}

extension ConsumptionAnswer.RefundPreference {
    var words: String {
        switch self {
        case .decline: "no refund"
        case .grantFull: "a full refund"
        case .grantProrated: "a refund of a part"
        }
    }
}
