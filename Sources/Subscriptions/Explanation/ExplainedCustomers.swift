import Encoding

/// The customers of some store accounts, with the rules by which they have access.
///
/// Folds the facts with the code of the projections, and collects the rules while it does.
package struct ExplainedCustomers: Sendable {
    package let customers: Customers
    private(set) var lines: [Line]
    /// By subscription.
    private let ownership: [ByteString: [Ownership]]
    let ownershipRules: [AppliedRule]
    let skipped: [AppliedRule]
    /// One for each app.
    let sources: [Source]

    /// A subscription with the rules of its fold.
    struct Line: Sendable {
        let subscription: Subscription
        var rules: [AppliedRule]
        /// The positions of all events about it.
        let positions: Set<Int64>
        /// See ``SubscriptionFacts/voidsOfUnknownOrders``.
        let voids: [CustomerNotice]
        /// The ids that say whose the subscription is, its own included.
        let keys: Set<CustomerKey>
        /// Those that products grant, by product.
        let entitlements: [String: [String]]
        /// The app that has the subscription, if it is not the answer's but joined with it.
        var joinedApp: String?

        var id: String { subscription.originalTransactionId }
    }

    /// An event that an operator skipped.
    package struct SkippedEvent: Sendable, Hashable {
        package let position: Int64
        /// The subscription that the event is about.
        package let originalTransactionId: String
        package let skippedAt: Instant

        package init(position: Int64, originalTransactionId: String, skippedAt: Instant) {
            self.position = position
            self.originalTransactionId = originalTransactionId
            self.skippedAt = skippedAt
        }
    }

    /// - Parameters:
    ///   - facts: Those of whole store accounts.
    ///   - links: All that name one of their keys.
    ///   - sharedTokens: See ``Customers/init(of:links:policy:sharedTokens:)``.
    ///   - products: Determine the kinds of products.
    ///   - entitlements: Those that products grant, by product.
    package init(
        _ facts: some Sequence<SubscriptionFacts>, links: CustomerLinks, policy: OwnershipPolicy,
        sharedTokens: Set<CustomerKey> = [], products: ProductCatalog = .empty, entitlements: [String: [String]] = [:],
        skipped: [SkippedEvent] = []
    ) {
        var evidence: [OwnershipEvidence] = []
        var lines: [Line] = []
        for facts in facts.sorted(by: { $0.originalTransactionId < $1.originalTransactionId }) {
            let own = facts.ownershipEvidence()
            evidence.append(own)
            // The facts of a purchase that belongs to a line of another one are in those of the line.
            guard facts.line == nil else { continue }
            var rules = AppliedRules()
            let subscription = Subscription(facts, products: products, explaining: &rules)
            lines.append(
                Line(
                    subscription: subscription, rules: rules.all, positions: facts.positions,
                    voids: facts.voidsOfUnknownOrders,
                    keys: Set(own.edges.keys).union([own.subscription]).union(
                        subscription.purchases.map { CustomerKey(.subscription, $0.purchaseToken) }),
                    entitlements: entitlements))
        }
        var rules = AppliedRules()
        customers = Customers(
            of: evidence, links: links, policy: policy, sharedTokens: sharedTokens, explaining: &rules)
        ownership = Dictionary(grouping: customers.ownership, by: \.originalTransactionId)
        ownershipRules = rules.all
        self.lines = lines
        sources = [Source(evidence: evidence, links: links, policy: policy, sharedTokens: sharedTokens)]
        self.skipped = skipped.map {
            AppliedRule(.skipped, of: $0.originalTransactionId, at: $0.skippedAt, positions: [$0.position])
        }
    }

    init(
        customers: Customers, lines: [Line], ownershipRules: [AppliedRule], skipped: [AppliedRule], sources: [Source]
    ) {
        self.customers = customers
        self.sources = sources
        self.lines = lines
        ownership = Dictionary(grouping: customers.ownership, by: \.originalTransactionId)
        self.ownershipRules = ownershipRules
        self.skipped = skipped
    }

    /// A subscription that a customer owns or owned, with what happened to it.
    package struct OwnedLine: Sendable {
        /// With all of its access, also that of other owners.
        package let subscription: Subscription
        package let intervals: [OwnedInterval]
        /// The app that has it, if it is not the answer's but joined with it.
        package let joinedApp: String?
        /// The positions of all events with facts about it.
        package let positions: Set<Int64>
        /// Those of ``SubscriptionFacts/voidsOfUnknownOrders`` that happened while the customer owned it.
        package let voids: [CustomerNotice]
        /// The customer who had it before, until when; nil if there is none.
        package let previous: OtherOwner?
        /// The customer who has it instead, since when; nil if there is none.
        package let next: OtherOwner?
        fileprivate let rules: [AppliedRule]

        /// Another owner, with the instant at which the subscription changed hands.
        package struct OtherOwner: Sendable, Hashable {
            package let customer: CustomerKey
            package let at: Instant
        }

        /// With the access that the customer has or had by owning it.
        package var owned: Subscription { subscription.owned(during: intervals.map(\.interval)) }

        /// What happened while the customer owned it, in no particular order.
        ///
        /// - Parameter instant: Only what happened up to and including this instant is returned.
        package func chronicle(through instant: Instant) -> [ChronicleEntry] {
            Chronicle(of: subscription, ownedDuring: intervals, rules, through: instant).entries
        }

        /// What the customer gained and lost by owning it, in no particular order.
        ///
        /// - Parameter instant: Only what happened up to and including this instant is returned.
        package func history(through instant: Instant) -> [HistoryEntry] {
            subscription.history(ownedDuring: intervals, through: instant, rules).map { entry in
                var entry = entry
                entry.joinedApp = joinedApp
                return entry
            }
        }
    }

    /// The subscriptions of a customer, in byte order of their ids.
    package func lines(of customer: CustomerKey) -> [OwnedLine] {
        lines.compactMap { line in
            let all = ownership[ByteString(line.id), default: []]
            let seatEnds = Dictionary(
                losses(of: line, customer).filter { $0.rule == .seatEnded }.map {
                    ($0.at ?? .latest, $0.positions.first)
                }
            ) { first, _ in first }
            let others = all.filter { $0.owner != customer && $0.reason != .seat }
            let intervals = all.filter { $0.owner == customer }.map { own in
                let isSeat = own.reason == .seat
                let next = isSeat ? nil : others.first { $0.from == own.until }
                return OwnedInterval(
                    own.interval, position: own.position,
                    nextPosition: isSeat ? seatEnds[own.until, default: nil] : next?.position, isSeat: isSeat,
                    previousOwner: isSeat ? nil : others.first { $0.until == own.from }?.owner, nextOwner: next?.owner)
            }
            guard !intervals.isEmpty else { return nil }
            let owners = Self.otherOwners(among: all, than: customer)
            return OwnedLine(
                subscription: line.subscription, intervals: intervals.united, joinedApp: line.joinedApp,
                positions: line.positions,
                voids: line.voids.filter { void in intervals.contains { $0.interval.contains(void.at) } },
                previous: owners.previous, next: owners.next, rules: line.rules)
        }
    }

    /// From whom a customer has a subscription, and who has it since.
    private static func otherOwners(
        among all: [Ownership], than customer: CustomerKey
    ) -> (previous: OwnedLine.OtherOwner?, next: OwnedLine.OtherOwner?) {
        let own = all.filter { $0.owner == customer && $0.reason != .seat }
        let others = all.filter { $0.owner != customer && $0.reason != .seat }
        guard let from = own.map(\.from).min(), let until = own.map(\.until).max() else { return (nil, nil) }
        return (
            others.first { $0.until == from }.map { OwnedLine.OtherOwner(customer: $0.owner, at: from) },
            others.first { $0.from == until }.map { OwnedLine.OtherOwner(customer: $0.owner, at: until) }
        )
    }

    /// The entitlements that the customer has or had at the instant.
    package func granted(to customer: CustomerKey, at instant: Instant) -> [Entitlement] {
        Entitlement.all(of: grants(to: customer), at: instant)
    }

    /// What each period of access grants to the customer.
    func grants(to customer: CustomerKey) -> [Entitlement.Grant] {
        lines.flatMap { line in
            let intervals = ownership[ByteString(line.id), default: []].filter { $0.owner == customer }.map(\.interval)
            return Entitlement.grants(
                of: intervals.isEmpty ? [] : [line.subscription.owned(during: intervals)],
                entitlements: line.entitlements, joinedApp: line.joinedApp)
        }
    }

    /// The names of all entitlements that purchases of the customer grant or would grant, sorted by bytes.
    ///
    /// - Parameter subscription: Only purchases of this one count; nil for all.
    package func entitlements(of customer: CustomerKey, by subscription: String? = nil) -> [String] {
        let owned = lines.filter { line in
            subscription.map { ByteString($0) == ByteString(line.id) } ?? true
                && (isOwner(customer, of: line) || !losses(of: line, customer).isEmpty)
        }
        let names = owned.flatMap { line in
            Set(line.rules.compactMap(\.productId)).flatMap { Entitlement.names(of: $0, line.entitlements).names }
        }
        return Set(names.map(ByteString.init)).sorted().map(\.text)
    }
}

// MARK: - Evidence

extension ExplainedCustomers {
    /// A report about a transaction.
    package struct Report: Sendable, Hashable {
        package let originalTransactionId: String
        package let transactionId: String
        package let statedAt: Instant

        package init(originalTransactionId: String, transactionId: String, statedAt: Instant) {
            self.originalTransactionId = originalTransactionId
            self.transactionId = transactionId
            self.statedAt = statedAt
        }
    }

    /// The reports that decide and whose events the facts do not name, because they repeat what an earlier event stated:
    /// each with the positions of all events about its subscription, one of which has it.
    package var missingEvidence: [Report: Set<Int64>] {
        var missing: [Report: Set<Int64>] = [:]
        for line in lines {
            for rule in line.rules { if let report = rule.missingReport { missing[report] = line.positions } }
        }
        return missing
    }

    /// Adds the events of reports in ``missingEvidence``.
    package mutating func addEvidence(_ positions: [Report: Int64]) {
        for line in lines.indices {
            for index in lines[line].rules.indices {
                guard let report = lines[line].rules[index].missingReport, let position = positions[report] else {
                    continue
                }
                lines[line].rules[index].positions = [position]
                lines[line].rules[index].evidenceAt = nil
            }
        }
    }
}

extension AppliedRule {
    fileprivate var missingReport: ExplainedCustomers.Report? {
        let isUnknown = positions.isEmpty && (rule.effect == .statement || rule == .extended)
        guard let at = evidenceAt ?? (isUnknown ? at : nil), let id = causeTransactionId ?? transactionId else {
            return nil
        }
        return ExplainedCustomers.Report(
            originalTransactionId: originalTransactionId, transactionId: id, statedAt: at)
    }
}

// MARK: - What the explanation is made from

extension ExplainedCustomers {
    /// A period that a purchase gave, before anything cut or removed it.
    struct Candidate {
        let line: Line
        let given: AppliedRule
        /// The period of ``given``.
        let period: Range<Instant>
        /// The rules that cut or removed it, in the order in which they were applied.
        let endings: [AppliedRule]
        /// The rules that decided between statements about the purchase.
        let statements: [AppliedRule]
        /// What the fold left of it; nil if nothing.
        let effective: AccessPeriod?
        /// The intervals in which the customer owns the subscription.
        let owned: [Range<Instant>]
        /// Why the product grants the entitlement.
        let product: AppliedRule

        /// The parts that give the customer access.
        var access: [Range<Instant>] {
            guard let effective else { return [] }
            return owned.map { $0.clamped(to: effective.start..<effective.end) }.filter { !$0.isEmpty }
        }

        func isOwned(at instant: Instant) -> Bool { owned.contains { $0.contains(instant) } }
        /// Whether the customer owned it while it was meant to last.
        var isEverOwned: Bool { owned.contains { $0.overlaps(period) } }
        func isEffective(at instant: Instant) -> Bool { effective?.contains(instant) ?? false }
        var isGrace: Bool { given.rule == .graceGranted || given.rule == .graceTakenBack }
        /// Of copies of one purchase, the one that was reported first is the last: it is the one to be named.
        var order: (Instant, Int, Instant, Int64) {
            (period.lowerBound, isGrace ? 0 : 1, period.upperBound, -(given.positions.first ?? 0))
        }
    }

    /// The periods of all subscriptions whose products grant the entitlement, in order of their start.
    func candidates(_ entitlement: String, _ customer: CustomerKey) -> [Candidate] {
        lines.flatMap { line in
            let byTransaction = Dictionary(grouping: line.rules) { $0.transactionId }
            let owned = ownership[ByteString(line.id), default: []].filter { $0.owner == customer }.map(\.interval)
            return line.rules.compactMap { given -> Candidate? in
                let isGrace = given.rule == .graceGranted || given.rule == .graceTakenBack
                guard isGrace || (given.rule.effect == .gives && given.rule != .extended), let period = given.period,
                    let product = grant(entitlement, by: given.productId, line)
                else { return nil }
                let rules = byTransaction[given.transactionId] ?? []
                let isAboutGrace: (AppliedRule) -> Bool = {
                    $0.rule == .graceCutSwitchOff || $0.rule == .graceTakenBack
                }
                let endings = rules.filter { rule in
                    guard rule.rule.effect == .cuts || rule.rule.effect == .removes else { return false }
                    if isAboutGrace(rule) { return isGrace }
                    // A purchase can also be replaced in its grace period.
                    return rule.period.map { $0.lowerBound == period.lowerBound } ?? !isGrace
                }
                return Candidate(
                    line: line, given: given, period: period, endings: endings,
                    statements: isGrace ? [] : rules.filter { $0.rule == .extended || $0.rule.effect == .statement },
                    effective: line.subscription.access.first {
                        $0.transactionId == given.transactionId && ($0.cause == .grace) == isGrace
                    }, owned: owned, product: product)
            }
        }.sorted { $0.order < $1.order }
    }

    /// The rule by which a product grants an entitlement; nil if it does not.
    private func grant(_ entitlement: String, by product: String?, _ line: Line) -> AppliedRule? {
        guard let product else { return nil }
        let (names, rule) = Entitlement.names(of: product, line.entitlements)
        guard names.contains(where: { ByteString($0) == ByteString(entitlement) }) else { return nil }
        var applied = AppliedRule(rule, productId: product)
        applied.joinedApp = line.joinedApp
        return applied
    }

    /// The purchases whose products grant the entitlement, but that give no period at all.
    func withoutPeriod(_ entitlement: String, _ customer: CustomerKey) -> [AppliedRule] {
        lines.filter { isOwner(customer, of: $0) }.flatMap { line in
            line.rules.filter {
                [.noAccessKind, .notConfigured, .consumed, .noDuration, .noPurchaseDate, .movedTo].contains($0.rule)
                    && grant(entitlement, by: $0.productId, line) != nil
            }
        }
    }

    private func isOwner(_ customer: CustomerKey, of line: Line) -> Bool {
        ownership[ByteString(line.id), default: []].contains { $0.owner == customer }
    }

    /// The rules by which a customer has a subscription at an instant.
    func ties(of line: Line, _ customer: CustomerKey, at instant: Instant) -> [AppliedRule] {
        var seen: Set<AppliedRule> = []
        return ownershipRules.filter { rule in
            guard seen.insert(rule).inserted else { return false }
            switch rule.rule {
            case .linkMoved: return rule.key.map(line.keys.contains) ?? false && rule.customer != customer
            case .linkRefused: return false
            case .latestBuyer, .seatEnded: return false
            case .sharedAccountToken: return rule.originalTransactionId == line.id
            default:
                return rule.originalTransactionId == line.id && rule.customer == customer
                    && rule.period.map { $0.contains(instant) || ($0.upperBound == .latest && instant == .latest) }
                        ?? true
            }
        }
    }

    /// The rules by which a customer lost a subscription.
    func losses(of line: Line, _ customer: CustomerKey) -> [AppliedRule] {
        ownershipRules.filter { rule in
            guard rule.customer == customer else { return false }
            switch rule.rule {
            case .latestBuyer, .seatEnded: return rule.originalTransactionId == line.id
            case .linkMoved: return rule.key.map(line.keys.contains) ?? false
            default: return false
            }
        }
    }

    /// The links of a customer that count for nothing.
    func refusals(of customer: CustomerKey) -> [AppliedRule] {
        ownershipRules.filter { $0.rule == .linkRefused && $0.customer == customer }
    }

    /// The rules by which another customer has a subscription at an instant.
    func otherTies(of line: Line, than customer: CustomerKey, at instant: Instant) -> [AppliedRule] {
        // An app user whose subscription goes to the owner of another one does not have it.
        let owners = Set(ownership[ByteString(line.id), default: []].map(\.owner))
        return ownershipRules.filter { rule in
            rule.originalTransactionId == line.id && rule.customer != customer
                && rule.customer.map(owners.contains) ?? false && rule.period?.contains(instant) ?? false
        }
    }
}
