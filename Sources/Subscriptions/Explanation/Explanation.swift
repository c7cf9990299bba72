import Encoding

/// Why a customer has an entitlement at an instant, or does not.
package struct Explanation: Sendable, Hashable {
    package let entitlement: String
    package let at: Instant
    /// Only events received up to this instant count; nil for all.
    package let knownAt: Instant?
    package let active: Bool
    /// The end of the unbroken access; ``Instant/latest`` if it has none. Nil if there is no access.
    package let until: Instant?
    /// The rules that decide, the decisive one first. Never empty.
    package let because: [Reason]
    /// What may seem to contradict the answer, and does not change it: newest first.
    package let against: [Reason]
    /// What changes the answer without another event, in order of time.
    package let couldChange: [PossibleChange]
    /// The answer by all events received until now, if it differs; nil if it does not, and without ``knownAt``.
    package private(set) var restated: Restatement?

    /// A rule that was applied.
    package struct Reason: Sendable, Hashable {
        package let rule: ExplanationRule
        /// A sentence without its full stop.
        package let text: String
        /// The app that has the subscription and the events, if it is not the answer's but joined with it.
        package let joinedApp: String?
        package let originalTransactionId: String?
        package let transactionId: String?
        /// See ``AppliedRule/causeTransactionId``.
        package let causeTransactionId: String?
        package let productId: String?
        /// The period that the rule gives or removes. Its end is ``Instant/latest`` if it has none.
        package let period: Range<Instant>?
        /// From when on the rule applies.
        package let at: Instant?
        /// The events that are the evidence, ascending.
        package let positions: [Int64]
        /// The same events with their sources, if they have been looked up.
        package fileprivate(set) var by: [CitedEvent] = []
    }

    /// An event that is evidence.
    package struct CitedEvent: Sendable, Hashable {
        package let position: Int64
        /// See ``EventSource``.
        package let source: String
        /// As the store calls it; nil if the source has no types.
        package let type: String?
        package let subtype: String?
        package let receivedAt: Instant

        package init(position: Int64, source: String, type: String?, subtype: String?, receivedAt: Instant) {
            self.position = position
            self.source = source
            self.type = type
            self.subtype = subtype
            self.receivedAt = receivedAt
        }
    }

    /// The answer by events that were received later.
    package struct Restatement: Sendable, Hashable {
        package let active: Bool
        /// See ``Explanation/until``.
        package let until: Instant?
        /// The decisive one, or what makes the difference if that is something else.
        package fileprivate(set) var reason: Reason
    }

    package struct PossibleChange: Sendable, Hashable {
        package let at: Instant
        package let rule: ExplanationRule
        /// A sentence without its full stop.
        package let text: String

        /// How the text of a renewal begins.
        static let renews = "Renews"

        /// What follows the instant of a renewal, such as ` for 12.99 USD; access ends if it is not renewed`; nil if
        /// it is another change.
        package var renewal: String? {
            rule == .clock && text.hasPrefix(Self.renews) ? String(text.dropFirst(Self.renews.count)) : nil
        }
    }

    /// Maximum number of reasons in ``against``.
    package static let againstMax = 10
}

// MARK: - Evidence and later knowledge

extension Explanation {
    /// An event that a reason names.
    package struct EventID: Sendable, Hashable {
        /// See ``Reason/joinedApp``.
        package let joinedApp: String?
        package let position: Int64

        package init(joinedApp: String?, position: Int64) {
            self.joinedApp = joinedApp
            self.position = position
        }
    }

    /// The events of all reasons.
    package var evidence: Set<EventID> {
        Set((because + against + [restated?.reason].compactMap(\.self)).flatMap(\.evidence))
    }

    /// Adds the sources of events.
    package func stated(by statements: [EventID: CitedEvent]) -> Explanation {
        func stated(_ reason: Reason) -> Reason {
            var reason = reason
            reason.by = reason.evidence.compactMap { statements[$0] }
            return reason
        }
        var result = Explanation(
            entitlement: entitlement, at: at, knownAt: knownAt, active: active, until: until,
            because: because.map(stated), against: against.map(stated), couldChange: couldChange)
        result.restated = restated.map { restated in
            Restatement(active: restated.active, until: restated.until, reason: stated(restated.reason))
        }
        return result
    }

    /// Adds the answer by later knowledge, if it differs.
    ///
    /// - Parameter later: The explanation of the same question by more events.
    package func restated(by later: Explanation) -> Explanation {
        guard let decisive = later.because.first, !isSameAnswer(later) else { return self }
        var result = self
        result.restated = Restatement(
            active: later.active, until: later.until,
            reason: reversal(in: later) ?? (isDecided(by: decisive) ? difference(from: later) : nil) ?? decisive)
        return result
    }

    /// Whether two explanations have the same answer for the same reason.
    private func isSameAnswer(_ other: Explanation) -> Bool {
        guard active == other.active, until == other.until, let its = other.because.first else { return false }
        return isDecided(by: its)
    }

    /// The last purchase of the unbroken access, by which it lasts ``until`` then; nil if that is the decisive reason.
    package var continuation: Reason? {
        guard active else { return nil }
        return because.dropFirst().first { reason in
            reason.rule.effect == .gives && reason.rule != .extended
                && (reason.transactionId != because[0].transactionId || reason.rule == .graceGranted)
        }
    }

    /// What ends the unbroken access at ``until``, before the last purchase is over; nil if nothing does.
    package var ending: Reason? {
        guard active else { return nil }
        return because.dropFirst().first { reason in
            (reason.rule.effect == .cuts || [.latestBuyer, .seatEnded].contains(reason.rule)) && reason.at == until
        }
    }

    /// Whether a reason is the decisive one.
    package func isDecided(by reason: Reason) -> Bool {
        because.first?.isSame(as: reason) ?? false
    }

    /// A statement by which something counts again that did not.
    private func reversal(in later: Explanation) -> Reason? {
        guard later.active else { return nil }
        return later.because.first { reason in
            reason.rule.effect == .statement && !because.contains { $0.isSame(as: reason) }
        }
    }

    /// Of two answers with the same decisive reason, what makes access last longer or shorter in the later one.
    private func difference(from later: Explanation) -> Reason? {
        func new(_ its: Reason?, _ own: Reason?) -> Reason? {
            its.flatMap { own?.isSame(as: $0) == true ? nil : $0 }
        }
        return new(later.ending, ending) ?? new(later.continuation, continuation)
            ?? later.against.first { reason in !against.contains { $0.isSame(as: reason) } }
    }
}

extension Explanation.Reason {
    fileprivate func isSame(as other: Explanation.Reason) -> Bool {
        rule == other.rule && originalTransactionId == other.originalTransactionId
            && transactionId == other.transactionId && causeTransactionId == other.causeTransactionId
            && period == other.period
    }

    fileprivate var evidence: [Explanation.EventID] {
        positions.map { Explanation.EventID(joinedApp: joinedApp, position: $0) }
    }
}

// MARK: - JSON

extension Explanation {
    package func write(to writer: inout JSONWriter) {
        writer.object { writeMembers(to: &$0) }
    }

    /// Writes the members of the JSON object, with the ``sentence`` that is made from them.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("entitlement", entitlement)
        writer.member("at", at)
        writer.member("knownAt", knownAt)
        writer.member("active", active)
        if let until { writer.member("until", end: until) }
        writer.key("because")
        writer.array(because) { $1.write(to: &$0) }
        writer.key("against")
        writer.array(against) { $1.write(to: &$0) }
        writer.key("couldChange")
        writer.array(couldChange) { writer, change in
            writer.object { writer in
                writer.member("at", change.at)
                writer.member("rule", change.rule.rawValue)
                writer.member("text", change.text)
            }
        }
        if let restated {
            writer.key("restated")
            writer.object { writer in
                writer.member("active", restated.active)
                if let until = restated.until { writer.member("until", end: until) }
                writer.key("reason")
                restated.reason.write(to: &writer)
            }
        }
        writer.member("sentence", sentence)
    }

    /// Reads the JSON that ``write(to:)`` wrote; nil if it is not of that form.
    package init?(json: JSONValue) {
        func reasons(_ key: StaticString) -> [Reason]? {
            let read = (json[key]?.elements ?? []).map { Reason(json: $0) }
            let reasons = read.compactMap(\.self)
            return reasons.count == read.count ? reasons : nil
        }
        guard let entitlement = json["entitlement"]?.string, let at = json.instantMember("at"),
            let active = json["active"]?.bool, let because = reasons("because"), let against = reasons("against")
        else { return nil }
        self.entitlement = entitlement
        self.at = at
        knownAt = json.instantMember("knownAt")
        self.active = active
        until = active ? json.instantMember("until") ?? .latest : nil
        self.because = because
        self.against = against
        couldChange = (json["couldChange"]?.elements ?? []).compactMap { json in
            guard let at = json.instantMember("at"),
                let rule = json["rule"]?.string.flatMap(ExplanationRule.init(rawValue:)),
                let text = json["text"]?.string
            else { return nil }
            return PossibleChange(at: at, rule: rule, text: text)
        }
        restated = json["restated"].flatMap { json in
            guard let active = json["active"]?.bool, let reason = json["reason"].flatMap({ Reason(json: $0) })
            else { return nil }
            return Restatement(
                active: active, until: active ? json.instantMember("until") ?? .latest : nil, reason: reason)
        }
    }
}

extension Explanation.Reason {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("rule", rule.rawValue)
            writer.member("text", text)
            writer.member("app", joinedApp)
            writer.member("originalTransactionId", originalTransactionId)
            writer.member("transactionId", transactionId)
            writer.member("causeTransactionId", causeTransactionId)
            writer.member("productId", productId)
            if let period {
                writer.key("period")
                writer.object { writer in
                    writer.member("start", period.lowerBound)
                    writer.member("end", end: period.upperBound)
                }
            }
            writer.member("at", at)
            writer.key("positions")
            writer.array(positions) { $0.value($1) }
            guard !by.isEmpty else { return }
            writer.key("by")
            writer.array(by) { writer, statement in
                writer.object { writer in
                    writer.member("position", statement.position)
                    writer.member("source", statement.source)
                    writer.member("type", statement.type)
                    writer.member("subtype", statement.subtype)
                    writer.member("receivedAt", statement.receivedAt)
                }
            }
        }
    }

    fileprivate init?(json: JSONValue) {
        guard let rule = json["rule"]?.string.flatMap(ExplanationRule.init(rawValue:)),
            let text = json["text"]?.string
        else { return nil }
        self.rule = rule
        self.text = text
        joinedApp = json["app"]?.string
        originalTransactionId = json["originalTransactionId"]?.string
        transactionId = json["transactionId"]?.string
        causeTransactionId = json["causeTransactionId"]?.string
        productId = json["productId"]?.string
        period = json["period"].flatMap { period in
            period.instantMember("start").map { $0..<(period.instantMember("end") ?? .latest) }
        }
        at = json.instantMember("at")
        positions = (json["positions"]?.elements ?? []).compactMap(\.int64)
        by = (json["by"]?.elements ?? []).compactMap { json in
            guard let position = json["position"]?.int64, let source = json["source"]?.string,
                let receivedAt = json.instantMember("receivedAt")
            else { return nil }
            return Explanation.CitedEvent(
                position: position, source: source, type: json["type"]?.string, subtype: json["subtype"]?.string,
                receivedAt: receivedAt)
        }
    }
}

extension JSONValue {
    fileprivate func instantMember(_ key: StaticString) -> Instant? {
        self[key]?.string.flatMap { Instant(iso8601: $0) }
    }
}
