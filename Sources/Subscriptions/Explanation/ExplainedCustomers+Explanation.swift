import Encoding

extension ExplainedCustomers {
    /// Explains an entitlement of a customer at an instant.
    ///
    /// Whether it is active, and until when, comes from the code that answers readers.
    ///
    /// - Parameter knownAt: The instant up to which the facts were received; nil for all. Only written to the answer.
    package func explanation(
        of entitlement: String, for customer: CustomerKey, at instant: Instant, knownAt: Instant? = nil
    ) -> Explanation {
        let granted = grants(to: customer)
            .filter { ByteString($0.entitlement) == ByteString(entitlement) }
        let answer = Entitlement.all(of: granted, at: instant).first
        let question = Question(
            entitlement: entitlement, customer: customer, at: instant,
            candidates: candidates(entitlement, customer))
        let until = answer.flatMap { $0.isActive(at: instant) ? $0.until : nil }
        let parts = until.map { active(question, until: $0) } ?? inactive(question)
        func reasons(_ rules: [AppliedRule]) -> [Explanation.Reason] {
            var seen: Set<AppliedRule> = []
            return rules.filter { seen.insert($0).inserted }.map { Explanation.Reason($0, entitlement, for: customer) }
        }
        let against = (parts.against + skips(question)).sorted { ($0.at ?? .earliest) > ($1.at ?? .earliest) }
        return Explanation(
            entitlement: entitlement, at: instant, knownAt: knownAt, active: until != nil, until: until,
            because: reasons(parts.because), against: Array(reasons(against).prefix(Explanation.againstMax)),
            couldChange: parts.couldChange.sorted { $0.at < $1.at })
    }

    private struct Question {
        let entitlement: String
        let customer: CustomerKey
        let at: Instant
        let candidates: [Candidate]
    }

    private typealias Parts = (
        because: [AppliedRule], against: [AppliedRule], couldChange: [Explanation.PossibleChange]
    )

    // MARK: With access

    private func active(_ question: Question, until: Instant) -> Parts {
        let current = question.candidates.filter { candidate in
            candidate.access.contains { $0.contains(question.at) }
        }
        guard let inForce = current.last(where: { !$0.isGrace }) ?? current.last else { return ([], [], []) }
        let extensions = inForce.statements.filter { $0.rule == .extended && $0.isInForce(inForce) }
        let isExtended = extensions.contains { $0.period.map { $0.lowerBound <= question.at } ?? false }
        let statements = inForce.statements.filter { $0.rule != .extended }
        let decisive = isExtended ? extensions + [inForce.given] : [inForce.given] + extensions
        // Without a gap, later purchases can reach further than the one in force.
        let last = question.candidates.last { $0.isReaching(until) }
        let ending = last.flatMap { self.ending($0, until, question.customer) }
        let because =
            decisive + [last?.given, ending].compactMap(\.self) + statements + [inForce.product]
            + ties(of: inForce.line, question.customer, at: question.at)
        let against = question.candidates.filter(\.isEverOwned).flatMap(\.endings).filter { rule in
            // An upgrade replaces a purchase by another one, so it takes nothing back.
            rule.rule != .replacedByUpgrade && rule.transactionId != inForce.given.transactionId && rule != ending
        }
        let renewing = last?.given.rule == .granted ? renewals(of: question, before: until) : []
        let end =
            until < .latest
            ? [self.end(of: question, until: until, by: last, ending, hasRenewal: !renewing.isEmpty)] : []
        return (
            because, against + withoutPeriod(question.entitlement, question.customer),
            continuation(of: question, after: inForce, until: until) + renewing + end
        )
    }

    /// The renewals that are due before the end of access that was given by hand: with them, it goes on.
    private func renewals(of question: Question, before until: Instant) -> [Explanation.PossibleChange] {
        var lines: Set<String> = []
        return question.candidates.compactMap { candidate -> Explanation.PossibleChange? in
            let subscription = candidate.line.subscription
            guard candidate.given.rule == .paid, let period = candidate.effective, period.cut == nil,
                period.end > question.at, period.end < until, candidate.isReaching(period.end),
                !subscription.access.contains(where: { $0.start <= period.end && $0.end > period.end }),
                subscription.isOff(afterEndAt: period.end, by: period.end) == false,
                subscription.reasonOfEnd(of: period) == nil,
                lines.insert(candidate.line.id).inserted
            else { return nil }
            let renewal = renewalText(subscription.renewal(at: period.end), of: candidate, question)
            return Explanation.PossibleChange(at: period.end, rule: .clock, text: "\(renewal), and access goes on")
        }
    }

    /// What ends access by a purchase at the instant, before its period is over; nil if nothing does.
    private func ending(_ candidate: Candidate, _ until: Instant, _ customer: CustomerKey) -> AppliedRule? {
        if let cut = candidate.endings.last(where: { $0.at == until }) { return cut }
        guard candidate.effective?.end != until else { return nil }
        return losses(of: candidate.line, customer).first { $0.at == until }
    }

    /// The next known purchase with which the run of access goes on.
    private func continuation(
        of question: Question, after inForce: Candidate, until: Instant
    ) -> [Explanation.PossibleChange] {
        let next = question.candidates.first { candidate in
            candidate.given != inForce.given
                && candidate.access.contains { $0.lowerBound > question.at && $0.lowerBound < until }
        }
        guard let next, let at = next.access.map(\.lowerBound).first(where: { $0 > question.at }) else { return [] }
        return [
            Explanation.PossibleChange(
                at: at, rule: next.given.rule,
                text: "Access goes on: \(next.given.text(question.entitlement, for: question.customer))")
        ]
    }

    /// How the run of access ends.
    ///
    /// - Parameters:
    ///   - last: The purchase that reaches the end.
    ///   - ending: What ends it before its time; nil if nothing does.
    ///   - hasRenewal: Whether something that renews gives access as well.
    private func end(
        of question: Question, until: Instant, by last: Candidate?, _ ending: AppliedRule?, hasRenewal: Bool
    ) -> Explanation.PossibleChange {
        func change(_ rule: ExplanationRule, _ text: String) -> Explanation.PossibleChange {
            Explanation.PossibleChange(at: until, rule: rule, text: text)
        }
        guard let last else { return change(.clock, "Access ends") }
        if let ending {
            return change(
                ending.rule, "Access ends: \(ending.text(question.entitlement, for: question.customer).uncapitalised)")
        }
        let subscription = last.line.subscription
        // Of an end in the past, later reports say why nothing followed it.
        if let effective = last.effective, let (lapse, _) = subscription.reasonOfEnd(of: effective) {
            return change(.clock, "Access ends: \(lapse.words)")
        }
        if last.given.rule == .granted {
            let renewal = hasRenewal ? ", unless the renewal before reaches further" : ""
            let how = last.revocation.map { ": the grant was \($0.statement.takenBackWords())" } ?? ", as it was given"
            return change(.clock, "Access ends\(how)\(renewal)")
        }
        if last.given.rule == .nonRenewingDuration {
            return change(.clock, "Access ends, because the product does not renew")
        }
        if last.given.rule == .graceGranted {
            return change(.clock, "The grace period ends, unless the renewal succeeds before")
        }
        switch subscription.isOff(afterEndAt: until, by: until) {
        case false?:
            let renewal = renewalText(subscription.renewal(at: until), of: last, question)
            let latest = subscription.commitmentEnd(after: until, by: until).map { end in
                ", and at the latest with the commitment" + (end < .latest ? " on \(end.words)" : "")
            }
            return change(.clock, "\(renewal); access ends if it is not renewed\(latest ?? "")")
        case true? where subscription.renewalStatement(at: until)?.endsWithCommitment == true:
            return change(.clock, "Access ends: the commitment is not renewed")
        case true?: return change(.clock, "Access ends: renewal is switched off")
        case nil:
            return change(.clock, "Access ends, unless the subscription is renewed: whether renewal is on is not known")
        }
    }

    /// Such as `Renews for 12.99 USD`; without the price for a customer who does not pay.
    private func renewalText(_ renewal: RenewalInfo, of last: Candidate, _ question: Question) -> String {
        let isPayer =
            switch last.given.payer {
            case .family, .assigned, .granted: false
            case .paying, .trial, .grace, nil:
                !ties(of: last.line, question.customer, at: question.at).contains { $0.rule == .tiedBySeat }
            }
        let price = isPayer ? renewal.nextPrice.map { " for \($0.words)" } ?? "" : ""
        let consent = renewal.priceIncreaseStatus == 0 ? " if the customer consents to the price increase" : ""
        return "\(Explanation.PossibleChange.renews)\(price)\(consent)"
    }

    // MARK: Without access

    private func inactive(_ question: Question) -> Parts {
        let at = question.at
        let owned = question.candidates.filter(\.isEverOwned)
        var against: [AppliedRule] = []
        for candidate in question.candidates where candidate.isEffective(at: at) && !candidate.isOwned(at: at) {
            against += [candidate.given] + otherTies(of: candidate.line, than: question.customer, at: at)
        }
        if !owned.isEmpty { against += withoutPeriod(question.entitlement, question.customer) }
        return (reasons(question, owned), against, changes(question, owned))
    }

    /// The rules that decide that there is no access.
    private func reasons(_ question: Question, _ owned: [Candidate]) -> [AppliedRule] {
        let at = question.at
        func because(_ candidate: Candidate, _ decisive: [AppliedRule]) -> [AppliedRule] {
            decisive + [candidate.given] + candidate.statements.filter { $0.isInForce(candidate) } + [candidate.product]
                + ties(of: candidate.line, question.customer, at: min(at, candidate.period.lowerBound))
        }
        // A purchase that another customer has by now, and that gives access.
        for candidate in question.candidates.reversed()
        where candidate.isEffective(at: at) && !candidate.isOwned(at: at) {
            let lost = losses(of: candidate.line, question.customer).filter { ($0.at ?? .earliest) <= at }
            // If access had ended before, the loss did not end it.
            let isEnd = lost.contains { loss in owned.contains { $0.isReaching(loss.at ?? .earliest) } }
            guard !lost.isEmpty, owned.isEmpty || candidate.isEverOwned || isEnd else { continue }
            return lost + [candidate.given, candidate.product]
        }
        // A purchase that was meant to give access, and was taken back or cut.
        for covering in owned.reversed() where covering.period.contains(at) && covering.isOwned(at: at) {
            let endings = covering.endings.filter { $0.rule.effect == .removes || ($0.at ?? .earliest) <= at }
            if !endings.isEmpty { return because(covering, endings) }
        }
        // The last purchase, which is over.
        if let past = owned.last(where: { $0.period.lowerBound <= at }) {
            guard let effective = past.effective else { return because(past, past.endings) }
            if effective.cut != nil { return because(past, past.endings.filter { $0.at == effective.end }) }
            let end = past.access.map(\.upperBound).max() ?? effective.end
            if end < effective.end, let loss = losses(of: past.line, question.customer).first(where: { $0.at == end }) {
                return because(past, [loss])
            }
            // What another customer bought since is why nothing follows it.
            let lost = losses(of: past.line, question.customer).filter { ($0.at ?? .latest) <= at }
            return because(past, [past.clock(at)] + lost)
        }
        if let next = owned.first { return because(next, [next.clock(at)]) }
        let other = withoutPeriod(question.entitlement, question.customer)
        if !other.isEmpty { return other }
        var lost = lines.flatMap { losses(of: $0, question.customer) }
        if lost.isEmpty { lost = refusals(of: question.customer) }
        return lost.isEmpty ? [AppliedRule(.noPurchase)] : lost
    }

    /// What may give access again.
    private func changes(_ question: Question, _ owned: [Candidate]) -> [Explanation.PossibleChange] {
        var changes: [Explanation.PossibleChange] = []
        let next = owned.compactMap { candidate in
            candidate.access.map(\.lowerBound).filter { $0 > question.at }.min().map { (at: $0, candidate) }
        }.min { $0.at < $1.at }
        if let next {
            changes.append(
                Explanation.PossibleChange(
                    at: next.at, rule: next.1.given.rule,
                    text: "Access begins: \(next.1.given.text(question.entitlement, for: question.customer))"))
        }
        var lines: Set<String> = []
        for candidate in owned where lines.insert(candidate.line.id).inserted {
            let subscription = candidate.line.subscription
            let status = subscription.status(at: question.at)
            if status == .retry || status == .hold, let change = subscription.nextChange(after: question.at),
                change.to == .expired
            {
                changes.append(
                    Explanation.PossibleChange(
                        at: change.at, rule: .clock,
                        text: "The store stops retrying the failed renewal of subscription \(candidate.line.id)"))
            }
            if status == .paused, let resumes = subscription.currentPurchase?.autoResumeTime, resumes > question.at {
                changes.append(
                    Explanation.PossibleChange(
                        at: resumes, rule: .clock,
                        text: "The pause of subscription \(candidate.line.id) ends, and the store tries to renew it"))
            }
        }
        return changes
    }

    /// The skipped events about subscriptions that the customer has or had.
    private func skips(_ question: Question) -> [AppliedRule] {
        let owned = Set(
            customers.ownership.filter { $0.owner == question.customer }.map(\.originalTransactionId))
        return skipped.filter { owned.contains(ByteString($0.originalTransactionId)) }
    }
}

extension ExplainedCustomers.Candidate {
    /// Whether access by it ends at the instant.
    fileprivate func isReaching(_ instant: Instant) -> Bool { access.contains { $0.upperBound == instant } }

    /// The statement that took a grant back, with its event; nil if none did, and for what was bought.
    fileprivate var revocation: (statement: GrantStatement, position: Int64?)? {
        guard given.rule == .granted,
            let row = line.subscription.transactions.first(where: {
                $0.transaction.transactionId == given.transactionId
            }), let statement = GrantStatement.revocation(of: row.transaction)
        else { return nil }
        return (statement, row.positions.max())
    }

    /// The rule that the instant lies outside of the period, with the reason why nothing follows it.
    fileprivate func clock(_ instant: Instant) -> AppliedRule {
        let span = effective.map { $0.start..<$0.end } ?? period
        var rule = AppliedRule(
            .clock, of: line.id, transactionId: given.transactionId, productId: given.productId, period: span,
            at: instant)
        rule.joinedApp = line.joinedApp
        if span.upperBound <= instant, let effective,
            let (lapse, positions) = line.subscription.lapse(after: effective, at: instant)
        {
            rule.lapse = lapse
            rule.positions = positions
        }
        if span.upperBound <= instant, let revocation {
            rule.revocation = revocation.statement
            rule.positions = revocation.position.map { [$0] } ?? []
        }
        return rule
    }
}

extension AppliedRule {
    /// Whether an extension still determines the end of the purchase; true for other rules.
    fileprivate func isInForce(_ candidate: ExplainedCustomers.Candidate) -> Bool {
        rule != .extended || period?.upperBound == candidate.period.upperBound
    }
}

extension Explanation.Reason {
    /// A rule that was applied, regardless of any entitlement.
    package init(_ applied: AppliedRule) {
        self.init(applied, "", for: nil)
    }

    init(_ applied: AppliedRule, _ entitlement: String, for customer: CustomerKey?) {
        rule = applied.rule
        text = applied.text(entitlement, for: customer)
        joinedApp = applied.joinedApp
        originalTransactionId = applied.originalTransactionId.isEmpty ? nil : applied.originalTransactionId
        transactionId = applied.transactionId
        causeTransactionId = applied.causeTransactionId
        productId = applied.productId
        period = applied.statedPeriod ?? applied.period
        at = applied.at
        positions = applied.positions
    }
}
