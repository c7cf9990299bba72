import Encoding

/// One request to a server, with its expected answer.
enum AnswerQuestion: Sendable {
    case subscription(Answer)
    case customer(CustomerAnswer)
    case purchase(PlayAnswer)
    case appUser(PlayCustomerAnswer)

    /// The number of expected answers that the request covers.
    var answers: Int {
        switch self {
        case .subscription, .purchase: 1
        case .customer(let expected): expected.entitlements.count
        case .appUser(let expected): expected.entitlements.count
        }
    }

    func differences(_ reader: AnswerReader) async -> [AnswerDifference] {
        switch self {
        case .subscription(let expected):
            let active = await reader.isActive(expected.originalTransactionId, at: expected.at)
            guard active != expected.active else { return [] }
            let answered = active.map { AccessText(active: $0, until: nil) }
            return [
                AnswerDifference(
                    subject: expected.originalTransactionId, story: expected.story.name, at: expected.at,
                    expected: AccessText(active: expected.active, until: nil), answered: answered,
                    explanation: expected.isIncomplete ? Self.lost : nil)
            ]
        case .customer(let expected):
            return Self.differences(
                expected, await reader.entitlements(of: expected.customer, at: expected.at))
        case .purchase(let expected):
            return Self.differences(expected, await reader.access(of: expected.purchaseToken, at: expected.at))
        case .appUser(let expected):
            let customer = SimulatedId(.account, expected.accountId)
            return Self.differences(
                expected.entitlements, of: customer, at: expected.at, story: expected.story.name, nil,
                await reader.entitlements(of: customer, at: expected.at))
        }
    }

    static let lost = "notifications lost"

    /// - Parameter active: The entitlements that the server lists as active; nil if there was no answer.
    static func differences(_ expected: CustomerAnswer, _ active: [String: AccessText]?) -> [AnswerDifference] {
        differences(
            expected.entitlements, of: expected.customer, at: expected.at, story: expected.story.name,
            expected.isIncomplete ? lost : nil, active)
    }

    private static func differences(
        _ expected: [CustomerAnswer.Entitlement], of customer: SimulatedId, at instant: Instant, story: String,
        _ explanation: String?, _ active: [String: AccessText]?
    ) -> [AnswerDifference] {
        func difference(_ name: String, _ right: AccessText, _ answered: AccessText?) -> AnswerDifference? {
            guard right != answered else { return nil }
            return AnswerDifference(
                subject: "\(customer.text) \(name)", story: story, at: instant, expected: right,
                answered: answered, explanation: explanation)
        }
        func answered(_ name: String) -> AccessText? {
            active.map { $0[name] ?? .notActive }
        }
        let named = expected.compactMap { entitlement in
            difference(
                entitlement.name, AccessText(active: entitlement.active, until: entitlement.until),
                answered(entitlement.name))
        }
        let unexpected = (active ?? [:]).keys.filter { name in !expected.contains { $0.name == name } }
        return named
            + unexpected.sorted().compactMap { difference($0, .notActive, answered($0)) }
    }
}

// MARK: - Google Play

extension AnswerQuestion {
    /// - Parameter answered: Nil if there was no answer.
    static func differences(_ expected: PlayAnswer, _ answered: AccessText?) -> [AnswerDifference] {
        let right = AccessText(
            active: expected.active, until: expected.until, status: (expected.status ?? .never).rawValue,
            productId: expected.productId)
        let compared = answered?.limited(to: right)
        guard compared != right else { return [] }
        // Right but for a status that began at a time which Google does not state.
        var known = right
        known.status = expected.statusBeforeAnswer?.rawValue
        return [
            AnswerDifference(
                subject: expected.purchaseToken, story: expected.story.name, at: expected.at, expected: right,
                answered: compared, explanation: known.status != nil && compared == known ? undated : nil)
        ]
    }

    private static let undated = "time not stated"
}

/// A wrong or missing answer.
package struct AnswerDifference: Sendable, CustomStringConvertible {
    /// The original transaction id, or the customer id and the entitlement.
    package let subject: String
    /// The name of the story.
    package let story: String
    package let at: Instant
    package let expected: AccessText
    /// Nil if there was no answer.
    package let answered: AccessText?
    /// Why a server cannot know the right answer; nil if it can.
    package let explanation: String?

    var isUnanswered: Bool { answered == nil }
    var order: (String, Instant) { (subject, at) }

    package var description: String {
        "\(subject) (\(story)) at \(at): expected \(expected), answered \(answered?.description ?? "nothing")"
            + (explanation.map { " (\($0))" } ?? "")
    }
}
