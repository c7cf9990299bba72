import Encoding
import Readers
import Subscriptions

/// What was asked of the store about a subscription, with the answers, and the forms to ask for more.
struct StoreActsSection: Sendable {
    let subscription: Subscription
    let writes: [SubscriptionWrite]
    let stores: Set<RefundRequest.Store>

    private var store: RefundRequest.Store? {
        if subscription.transactions.contains(where: \.transaction.isGranted) { return nil }
        return subscription.purchases.isEmpty ? .apple : .google
    }

    func write(in frame: PageFrame, to html: inout HTMLWriter) {
        let canAsk = frame.mayAct && (store.map(stores.contains) ?? false)
        guard canAsk || !writes.isEmpty else { return }
        html.element("section", [.text(.labelledby, "acts")]) { html in
            html.element("h2", [.text(.id, "acts")], text: "Asked of the store")
            if !writes.isEmpty {
                html.element("ul", [.class("answers")]) { html in
                    for write in writes.reversed() { self.write(write, canAsk, in: frame, to: &html) }
                }
            }
            guard canAsk, let store else { return }
            switch store {
            case .apple: writeAppleForms(in: frame, to: &html)
            case .google: writeGoogleForms(in: frame, to: &html)
            }
        }
    }

    private func write(
        _ asked: SubscriptionWrite, _ canAsk: Bool, in frame: PageFrame, to html: inout HTMLWriter
    ) {
        let isDone = asked.write.answer?.result == .accepted
        html.element("li", isDone ? [.class("active")] : asked.write.isOpen ? [.class("grace")] : []) { html in
            html.element("p") { html in
                html.element("strong", text: asked.write.change.words)
                html.text(": \(asked.write.answerWords)")
            }
            html.element("p") { html in
                html.text("By \(asked.write.by) at ")
                html.time(asked.askedAt)
                html.text(": \(asked.write.reason)")
                for position in asked.positions {
                    html.text(" ")
                    html.link("event \(position)", frame.event(position))
                }
            }
            guard canAsk, asked.write.isOpen, let fields = asked.write.change.fields else { return }
            frame.form(Address("subscriptions", subscription.originalTransactionId), to: &html) { html in
                html.hidden("do", "preview")
                for (name, value) in fields { html.hidden(name, value) }
                html.hidden("reason", asked.write.reason)
                html.element("button", text: "Ask again…")
            }
        }
    }

    // MARK: - Forms

    private func writeAppleForms(in frame: PageFrame, to html: inout HTMLWriter) {
        act(.extend, "Extend…", in: frame, to: &html) { html in
            html.field("days", "Free days, 1 to 90", isRequired: true)
            html.choice(
                "code", "Reason for Apple", StoreWrite.ExtensionReason.allCases.map { ($0.rawValue, $0.rawValue) })
        }
        act(.setAccountToken, "Set account token…", in: frame, to: &html) { html in
            html.field("token", "Account token, a UUID", isRequired: true)
        }
    }

    private func writeGoogleForms(in frame: PageFrame, to html: inout HTMLWriter) {
        guard let purchase = subscription.currentPurchase else { return }
        if purchase.isSubscription, purchase.isRenewed {
            act(.cancel, "Stop the renewal…", in: frame, to: &html) { _ in }
            act(.defer, "Move the next charge…", in: frame, to: &html) { html in
                html.field("days", "By days, 1 to 365", isRequired: true)
            }
        }
        if purchase.isSubscription, purchase.isRenewed || purchase.state == .canceled {
            act(.revoke, "End access with a refund…", in: frame, to: &html) { html in
                html.choice(
                    "refund", "Refund", [("full", "the whole period"), ("prorated", "the rest of it")])
            }
        }
        guard isLastOrderRefundable(at: frame.now) else { return }
        act(.refund, "Refund the last order…", in: frame, to: &html) { html in
            html.choice("revokes", "Access", [("no", "stays"), ("yes", "ends")])
        }
    }

    /// Whether the last order was not refunded, and is not older than three years.
    ///
    /// - Source: Google, "Method: orders.refund".
    private func isLastOrderRefundable(at now: Instant) -> Bool {
        guard let order = subscription.currentPurchase?.latestOrderId else { return false }
        guard let row = subscription.transactions.first(where: { $0.transaction.transactionId == order }) else {
            return true
        }
        let bought = row.transaction.purchaseDate ?? now
        return !row.settled.isRefunded && bought.advanced(byMilliseconds: Self.refundableMilliseconds) > now
    }

    private static let refundableMilliseconds: Int64 = 3 * 365 * 86_400_000

    private func act(
        _ action: StoreWrite.Action, _ label: String, in frame: PageFrame, to html: inout HTMLWriter,
        fields: (inout HTMLWriter) -> Void
    ) {
        frame.form(Address("subscriptions", subscription.originalTransactionId), to: &html) { html in
            html.hidden("do", "preview")
            html.hidden("act", action.rawValue)
            fields(&html)
            html.field("reason", "Reason, which is recorded", isRequired: true)
            html.element("button", text: label)
        }
    }
}

extension PlayPurchase {
    /// Whether Google would renew it, or the state is one that this version does not know: of a purchase that has expired or
    /// is not paid for yet, there is nothing to end.
    fileprivate var isRenewed: Bool {
        switch state {
        case .active, .inGracePeriod, .onHold, .paused, nil: true
        case .canceled, .expired, .pending, .pendingPurchaseCanceled, .purchased, .cancelled: false
        }
    }
}

// MARK: - Words

extension StoreWrite.Change {
    package var words: String {
        func days(_ number: Int) -> String { number == 1 ? "1 day" : "\(number) days" }
        return switch self {
        case .extend(_, let terms): "Extend by \(days(terms.days))"
        case .extendAll(let productId, _, let terms): "Extend all of \(productId) by \(days(terms.days))"
        case .setAccountToken(_, let token): "Set account token \(token)"
        case .cancel: "Stop the renewal"
        case .revoke(_, let isProrated): "End access, with a refund of \(isProrated ? "the rest" : "the period")"
        case .defer(_, let number, _): "Move the next charge by \(days(number))"
        case .refund(_, let orderId, let revokes): "Refund order \(orderId), access \(revokes ? "ends" : "stays")"
        case .answerRefund(let subject, let content):
            "Answer about a refund of \(subject.transactionId): \(content.preference?.words ?? "no preference")"
        }
    }

    /// The hidden fields that ask for it again; nil if a form of one subscription cannot.
    fileprivate var fields: [(String, String)]? {
        let own: [(String, String)]
        switch self {
        case .extend(_, let terms): own = [("days", "\(terms.days)"), ("code", terms.reason.rawValue)]
        case .setAccountToken(_, let token): own = [("token", token)]
        case .cancel: own = []
        case .revoke(_, let isProrated): own = [("refund", isProrated ? "prorated" : "full")]
        case .defer(_, let number, let etag): own = [("days", "\(number)"), ("etag", etag)]
        case .refund(_, _, let revokes): own = [("revokes", revokes ? "yes" : "no")]
        case .extendAll, .answerRefund: return nil
        }
        return [("act", action.rawValue)] + own
    }
}

extension StoreWrite {
    /// What came of it. Unknown is not done.
    var answerWords: String {
        guard let answer else {
            return change.action == .answerRefund
                ? "stated; no answer of the store yet" : "no answer yet, so the store may or may not have made it"
        }
        switch answer.result {
        case .accepted where change.action == .answerRefund: return "the store has the answer"
        case .accepted:
            return "made" + (answer.effectiveDate.map { ", access until \($0.longText)" } ?? "")
        case .refused:
            let code = answer.errorCode.map { ", code \($0)" } ?? answer.problem.map { ", \($0)" } ?? ""
            return "refused by the store" + (answer.httpStatus.map { " (HTTP \($0)\(code))" } ?? code)
        case .unknown:
            return
                "unknown (\(answer.problem ?? "no answer")): the store may have made it. Ask again: it makes it only once"
        }
    }
}
