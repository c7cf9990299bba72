import Encoding

/// A developer's answer to Apple about a purchase for which its customer requested a refund. Exists only with the
/// customer's consent, without which nothing may be sent to Apple.
///
/// - Source: Apple, "Send Consumption Information" and "ConsumptionRequest".
package struct ConsumptionAnswer: Sendable, Hashable {
    /// Whether the customer got a sample, a trial or information before the purchase.
    package let isSampleProvided: Bool
    package let delivery: Delivery
    /// How much was consumed, in thousandths of a percent: 50000 is one half. Nil if it is not stated.
    package let percentage: Int32?
    /// Nil for no preference.
    package let preference: RefundPreference?

    /// The raw values are Apple's.
    package enum Delivery: String, Sendable, CaseIterable {
        case delivered = "DELIVERED"
        case qualityIssue = "UNDELIVERED_QUALITY_ISSUE"
        case wrongItem = "UNDELIVERED_WRONG_ITEM"
        case serverOutage = "UNDELIVERED_SERVER_OUTAGE"
        case other = "UNDELIVERED_OTHER"
    }

    /// The raw values are Apple's.
    package enum RefundPreference: String, Sendable, CaseIterable {
        case decline = "DECLINE"
        case grantFull = "GRANT_FULL"
        case grantProrated = "GRANT_PRORATED"
    }

    package static let wholePercentage: Int32 = 100_000

    /// - Throws: ``Malformed`` if the answer would be wrong for every purchase. See also ``problem(of:)``.
    package init(
        isSampleProvided: Bool, delivery: Delivery, percentage: Int32? = nil, preference: RefundPreference? = nil
    ) throws(Malformed) {
        if let percentage {
            guard (0...Self.wholePercentage).contains(percentage) else {
                throw Malformed("consumptionPercentage", "must be a number from 0 to \(Self.wholePercentage)")
            }
            guard percentage == 0 || delivery == .delivered else {
                throw Malformed("consumptionPercentage", "must be 0 or absent unless deliveryStatus is DELIVERED")
            }
        }
        self.isSampleProvided = isSampleProvided
        self.delivery = delivery
        self.percentage = percentage
        self.preference = preference
    }

    /// Why Apple would refuse the answer for a purchase; nil if it would not.
    ///
    /// - Parameter productType: As Apple spells it; nil or an unknown text is left to Apple.
    package func problem(of productType: String?) -> Malformed? {
        guard let type = productType.flatMap(Transaction.ProductType.init(rawValue:)) else { return nil }
        if type == .autoRenewable {
            guard percentage != nil else { return nil }
            return Malformed(
                "consumptionPercentage", "must be absent for an auto-renewable subscription: Apple computes it")
        }
        guard preference == .grantProrated else { return nil }
        if let percentage, 0 < percentage, percentage < Self.wholePercentage { return nil }
        return Malformed(
            "refundPreference",
            "can be GRANT_PRORATED only with a consumptionPercentage from 1 to \(Self.wholePercentage - 1)")
    }

    /// The description is one line.
    package struct Malformed: Error, Hashable, CustomStringConvertible {
        package let description: String
        /// The name of the member.
        package let field: String

        init(_ field: String, _ problem: String) {
            self.field = field
            description = "\(field) \(problem)"
        }

        fileprivate init(unknown name: String) {
            field = name
            description = "unknown member \"\(name)\""
        }
    }
}

// MARK: - JSON

extension ConsumptionAnswer {
    /// Reads an object with Apple's names. Nil if the customer has not consented: then nothing is sent to Apple.
    ///
    /// - Throws: ``Malformed``. An unknown member is malformed, since a misspelt one would be left out silently.
    package static func read(_ json: JSONValue) throws(Malformed) -> ConsumptionAnswer? {
        let known: Set = [
            "customerConsented", "sampleContentProvided", "deliveryStatus", "consumptionPercentage", "refundPreference",
        ]
        for member in json.members where !known.contains(member.key.string ?? "") {
            throw Malformed(unknown: member.key.string ?? "")
        }
        guard let hasConsented = json.bool("customerConsented") else {
            throw Malformed("customerConsented", "must be true or false")
        }
        guard hasConsented else { return nil }
        guard let isSampleProvided = json.bool("sampleContentProvided") else {
            throw Malformed("sampleContentProvided", "must be true or false")
        }
        guard let delivery = try choice(Delivery.self, json["deliveryStatus"], "deliveryStatus") else {
            throw Malformed("deliveryStatus", "must be one of \(names(Delivery.self))")
        }
        var percentage: Int32?
        if let value = json["consumptionPercentage"], !value.isNull {
            guard let number = value.int64, let small = Int32(exactly: number) else {
                throw Malformed("consumptionPercentage", "must be a number from 0 to \(wholePercentage)")
            }
            percentage = small
        }
        return try ConsumptionAnswer(
            isSampleProvided: isSampleProvided, delivery: delivery, percentage: percentage,
            preference: try choice(RefundPreference.self, json["refundPreference"], "refundPreference"))
    }

    /// `"customerConsented":true,…`, with Apple's names. Properties that are nil are left out.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("customerConsented", true)
        writer.member("sampleContentProvided", isSampleProvided)
        writer.member("deliveryStatus", delivery.rawValue)
        writer.member("consumptionPercentage", percentage)
        writer.member("refundPreference", preference?.rawValue)
    }

    private static func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ type: Choice.Type, _ value: JSONValue?, _ field: String
    ) throws(Malformed) -> Choice? {
        guard let value, !value.isNull else { return nil }
        guard let choice = value.string.flatMap(Choice.init(rawValue:)) else {
            throw Malformed(field, "must be one of \(names(type))")
        }
        return choice
    }

    private static func names<Choice: RawRepresentable<String> & CaseIterable>(_ type: Choice.Type) -> String {
        type.allCases.map(\.rawValue).joined(separator: ", ")
    }
}
