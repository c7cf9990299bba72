import Encoding

/// A rule that the fold applied, with what it was applied to.
package struct AppliedRule: Sendable, Hashable {
    package let rule: ExplanationRule
    /// Set by the collector if it is about one subscription.
    package var originalTransactionId: String
    /// The purchase that it was applied to; nil for rules about a whole subscription.
    package var transactionId: String?
    /// The purchase that made the rule apply: the replacement of an upgrade, the copy that was refunded, the purchase of
    /// the next owner.
    package var causeTransactionId: String?
    package var productId: String?
    /// The period that the rule gives or removes.
    package var period: Range<Instant>?
    /// The instant from which on the rule applies: of a refund, an upgrade, a statement.
    package var at: Instant?
    /// The events that are the evidence, ascending.
    package var positions: [Int64]
    /// The period as the event that is the evidence states it, if a later one moved its end.
    var statedPeriod: Range<Instant>?
    /// The time of the report that is the evidence, if ``positions`` has an event that reported the same before it was
    /// taken back.
    var evidenceAt: Instant?
    /// For rules about ownership, the customer that has the subscription by it; for ``ExplanationRule/latestBuyer`` and
    /// ``ExplanationRule/linkMoved``, the customer that had it before; for ``ExplanationRule/linkRefused``, the customer
    /// that does not get it.
    package var customer: CustomerKey?
    /// For ``ExplanationRule/linkMoved``, the customer that has it since.
    package var nextCustomer: CustomerKey?
    /// The key of a link that moved or counts for nothing, or an account token that counts for nothing. For
    /// ``ExplanationRule/movedTo``, the subscription that has the purchase.
    package var key: CustomerKey?
    /// The app whose facts or links it was applied to, if it is not the answer's but joined with it.
    package var joinedApp: String?
    /// For a period of a transaction: who pays for it.
    package var payer: ReportingPeriod.PayerState?
    /// For ``ExplanationRule/unknownRevocation``: the fields and values that this version does not know.
    package var unknownValue: String?
    /// For ``ExplanationRule/unitsRefunded``.
    package var units: Units?
    /// For ``ExplanationRule/amountRefunded``: what that refund paid back; nil if it was all.
    package var amount: Amount?
    /// For ``ExplanationRule/laterStatementWins``: the refund or early end that is taken back.
    package var takenBack: TakenBack?
    /// For ``ExplanationRule/clock``: why nothing follows the period; nil if that is not known.
    package var lapse: Lapse?
    /// For the rule by which a grant gives no access, or no more: the statement that took it back; nil if none did.
    package var revocation: GrantStatement?

    package init(
        _ rule: ExplanationRule, of originalTransactionId: String = "", transactionId: String? = nil,
        causeTransactionId: String? = nil, productId: String? = nil, period: Range<Instant>? = nil,
        at: Instant? = nil, positions: [Int64] = [], customer: CustomerKey? = nil, key: CustomerKey? = nil
    ) {
        self.rule = rule
        self.originalTransactionId = originalTransactionId
        self.transactionId = transactionId
        self.causeTransactionId = causeTransactionId
        self.productId = productId
        self.period = period
        self.at = at
        self.positions = Set(positions).sorted()
        self.customer = customer
        self.key = key
    }
}

extension AppliedRule {
    /// The units of a one-time purchase.
    package struct Units: Sendable, Hashable {
        package let bought: Int
        /// After the refund.
        package let left: Int
    }

    /// An amount of money.
    package struct Amount: Sendable, Hashable {
        /// In thousandths of the currency unit.
        package let thousandths: Int64
        /// ISO 4217; nil if it is not known.
        package let currency: String?

        /// Such as `4.00 USD`.
        package var words: String {
            let number = thousandths.amount(in: currency)
            return currency.map { "\(number) \($0)" } ?? number
        }

        /// The same amount, paid back.
        var negative: Amount {
            Amount(
                thousandths: Int64.zero.subtractingReportingOverflow(thousandths).partialValue, currency: currency)
        }
    }

    /// A refund or an early end that a later statement takes back.
    package struct TakenBack: Sendable, Hashable {
        /// The rule by which it counted.
        package let rule: ExplanationRule
        package let at: Instant
        /// The first event that reported it.
        package let position: Int64
    }
}

/// Records the rules of a fold, at the places where the fold applies them.
///
/// A generic parameter of the fold, so that a fold that explains nothing is compiled without it.
protocol RuleCollector {
    static var isCollecting: Bool { get }
    mutating func collect(_ rule: @autoclosure () -> AppliedRule)
}

/// Records nothing, at no cost.
struct NoRules: RuleCollector {
    static var isCollecting: Bool { false }

    @inline(__always)
    mutating func collect(_ rule: @autoclosure () -> AppliedRule) {}
}

/// The rules of a fold, in the order in which they were applied.
package struct AppliedRules: RuleCollector, Sendable {
    package private(set) var all: [AppliedRule] = []
    /// The subscription that is folded; nil while rules about several are collected.
    private var subscription: String?

    static var isCollecting: Bool { true }

    package init() {}

    /// Collects rules about one subscription.
    init(about facts: SubscriptionFacts) {
        subscription = facts.originalTransactionId
    }

    mutating func collect(_ rule: @autoclosure () -> AppliedRule) {
        var applied = rule()
        if let subscription { applied.originalTransactionId = subscription }
        all.append(applied)
    }

    /// Appends the rules of the fold of a subscription, each with the events that state what it rests on.
    mutating func append(_ own: AppliedRules, statedIn facts: SubscriptionFacts) {
        all += own.all.map { $0.withEvidence(in: facts) }
    }
}
