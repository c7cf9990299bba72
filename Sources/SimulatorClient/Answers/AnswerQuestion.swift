import Encoding
import StoreSimulator

/// One request to a server, with its expected answer.
enum AnswerQuestion: Sendable {
    case subscription(Answer)
    case customer(CustomerAnswer)

    /// The number of expected answers that the request covers.
    var answers: Int {
        switch self {
        case .subscription: 1
        case .customer(let expected): expected.entitlements.count
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
                    subject: expected.originalTransactionId, story: expected.story, at: expected.at,
                    expected: AccessText(active: expected.active, until: nil), answered: answered,
                    isIncomplete: expected.isIncomplete)
            ]
        case .customer(let expected):
            return Self.differences(
                expected, await reader.entitlements(of: expected.customer, at: expected.at))
        }
    }

    /// - Parameter active: The entitlements that the server lists as active; nil if there was no answer.
    static func differences(_ expected: CustomerAnswer, _ active: [String: AccessText]?) -> [AnswerDifference] {
        func difference(_ name: String, _ right: AccessText, _ answered: AccessText?) -> AnswerDifference? {
            guard right != answered else { return nil }
            return AnswerDifference(
                subject: "\(expected.customer.text) \(name)", story: expected.story, at: expected.at, expected: right,
                answered: answered, isIncomplete: expected.isIncomplete)
        }
        func answered(_ name: String) -> AccessText? {
            active.map { $0[name] ?? .notActive }
        }
        let named = expected.entitlements.compactMap { entitlement in
            difference(
                entitlement.name, AccessText(active: entitlement.active, until: entitlement.until),
                answered(entitlement.name))
        }
        let unexpected = (active ?? [:]).keys.filter { name in !expected.entitlements.contains { $0.name == name } }
        return named
            + unexpected.sorted().compactMap { difference($0, .notActive, answered($0)) }
    }
}

/// Whether access is active, and its end if the answer contains one.
package struct AccessText: Sendable, Hashable, CustomStringConvertible {
    package let active: Bool
    package let until: Instant?

    static let notActive = AccessText(active: false, until: nil)

    package var description: String {
        (active ? "active" : "not active") + (until.map { " until \($0)" } ?? "")
    }
}

/// A wrong or missing answer.
package struct AnswerDifference: Sendable, CustomStringConvertible {
    /// The original transaction id, or the customer id and the entitlement.
    package let subject: String
    package let story: Story
    package let at: Instant
    package let expected: AccessText
    /// Nil if there was no answer.
    package let answered: AccessText?
    /// A notification about the subject was never delivered.
    package let isIncomplete: Bool

    var isUnanswered: Bool { answered == nil }
    var order: (String, Instant) { (subject, at) }

    package var description: String {
        "\(subject) (\(story.name)) at \(at): expected \(expected), answered \(answered?.description ?? "nothing")"
            + (isIncomplete ? " (notifications lost)" : "")
    }
}
