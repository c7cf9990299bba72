import Encoding
import Readers
import Subscriptions

extension ConsoleTable {
    /// What an event changed: each row compares what was known before it with what it added.
    ///
    /// - Parameter instant: The time of the event, at which both are evaluated.
    static func effects(
        _ effects: [CustomerReader.Effect], at instant: Instant, stream: String?, empty: String
    ) -> ConsoleTable {
        ConsoleTable(
            "effects", caption: "What it changed",
            columns: [.init("Subscription"), .init("What"), .init("Before"), .init("After")],
            rows: effects.flatMap { effect -> [[Cell]] in
                let id = effect.after.originalTransactionId
                let before = effect.before.map { Aspects($0, instant) } ?? Aspects()
                return Aspects(effect.after, instant).differences(from: before).map { difference -> [Cell] in
                    [
                        .link(id, Address("subscriptions", id).with("stream", stream)), .text(difference.name),
                        .optional(difference.before), .optional(difference.after),
                    ]
                }
            }, empty: empty)
    }
}

/// What an event can change of a subscription, as texts; empty before the first event.
private struct Aspects {
    /// The name of each with its text, in the order of a page.
    private var texts: [(name: String, text: String?)] = []
    /// By transaction and cause.
    private var periods: [String: String] = [:]

    init() {}

    init(_ subscription: Subscription, _ instant: Instant) {
        let renewal = subscription.renewal(at: instant)
        let next = subscription.nextChange(after: instant)
        texts = [
            ("status", subscription.status(at: instant).words),
            ("next, without another event", next.map { "\($0.to.words) from \($0.at.longText) on" }),
            ("access until", subscription.accessEnd(at: instant).map(\.longText)),
            ("renewal", subscription.isRenewing(at: instant).map { $0 ? "on" : "off" }),
            ("will end", subscription.plannedEnd(at: instant).map(\.longText)),
            ("next product", renewal.autoRenewProductId),
            (
                "next price",
                renewal.priceOfRenewal.map { "\($0.amount(in: renewal.currency)) \(renewal.currency ?? "")" }
            ),
            ("price increase", renewal.priceIncreaseStatus.map { $0 == 0 ? "waits for consent" : "agreed to" }),
            ("payment", renewal.isInBillingRetryPeriod == true ? "failed, the store retries it" : nil),
            ("grace until", renewal.gracePeriodExpiresDate.map(\.longText)),
            ("resumes", subscription.currentPurchase?.autoResumeTime.map(\.longText)),
        ]
        let all = subscription.access.map { ($0, false) } + subscription.refunded.map { ($0, true) }
        for (period, isRemoved) in all {
            periods["\(period.transactionId) \(period.cause == .grace)"] = Self.text(period, isRemoved)
        }
    }

    private static func text(_ period: AccessPeriod, _ isRemoved: Bool) -> String {
        let word =
            switch period.cause {
            case _ where isRemoved: "refunded: no access"
            case .paid: "access"
            case .grace, .owned: period.cause.rawValue
            }
        let cut = period.cut.map { isRemoved ? "" : ", ended early: \($0.rawValue.replacing("_", with: " "))" } ?? ""
        return "\(word) \(period.start.longText) to \(period.end.longText)\(cut)"
    }

    struct Difference {
        let name: String
        let before: String?
        let after: String?
    }

    func differences(from before: Aspects) -> [Difference] {
        let earlier = Dictionary(uniqueKeysWithValues: before.texts.map { ($0.name, $0.text) })
        let changed = texts.compactMap { name, text -> Difference? in
            let old = earlier[name] ?? nil
            return old == text ? nil : Difference(name: name, before: old, after: text)
        }
        let keys = Set(periods.keys).union(before.periods.keys).sorted()
        let access = keys.compactMap { key -> Difference? in
            let (old, new) = (before.periods[key], periods[key])
            let name = "access by transaction \(key.prefix { $0 != " " })"
            return old == new ? nil : Difference(name: name, before: old, after: new)
        }
        return changed + access
    }
}
