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
    }

    package struct PossibleChange: Sendable, Hashable {
        package let at: Instant
        package let rule: ExplanationRule
        /// A sentence without its full stop.
        package let text: String
    }

    /// Maximum number of reasons in ``against``.
    package static let againstMax = 10
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
    }
}

extension JSONValue {
    fileprivate func instantMember(_ key: StaticString) -> Instant? {
        self[key]?.string.flatMap { Instant(iso8601: $0) }
    }
}
