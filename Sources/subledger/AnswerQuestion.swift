import StoreSimulator
import Subscriptions

/// One request to a server, of which the right answer is known.
enum AnswerQuestion: Sendable {
    case line(Answer)
    case customer(CustomerAnswer)

    /// How many answers of the key it is about.
    var answers: Int {
        switch self {
        case .line: 1
        case .customer(let expected): expected.entitlements.count
        }
    }

    func differences(_ reader: AnswerReader) async -> [AnswerDifference] {
        switch self {
        case .line(let expected):
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
                expected, await reader.entitlements(of: expected.customerId, at: expected.at))
        }
    }

    /// - Parameter active: What is answered as active; what is missing is not.
    static func differences(_ expected: CustomerAnswer, _ active: [String: AccessText]?) -> [AnswerDifference] {
        func difference(_ name: String, _ right: AccessText, _ answered: AccessText?) -> AnswerDifference? {
            guard right != answered else { return nil }
            return AnswerDifference(
                subject: "\(expected.customerId) \(name)", story: expected.story, at: expected.at, expected: right,
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
        let strange = (active ?? [:]).keys.filter { name in !expected.entitlements.contains { $0.name == name } }
        return named
            + strange.sorted().compactMap { difference($0, .notActive, answered($0)) }
    }
}

/// Whether there is access, and until when where that is asked.
struct AccessText: Sendable, Hashable, CustomStringConvertible {
    let active: Bool
    let until: Instant?

    static let notActive = AccessText(active: false, until: nil)

    var description: String {
        (active ? "active" : "not active") + (until.map { " until \($0)" } ?? "")
    }
}

/// An answer that was not right.
struct AnswerDifference: Sendable, CustomStringConvertible {
    /// The line, or the customer and the entitlement.
    let subject: String
    let story: Story
    let at: Instant
    let expected: AccessText
    /// Nil when there was no answer.
    let answered: AccessText?
    /// Something about the subject was never delivered.
    let isIncomplete: Bool

    var isUnanswered: Bool { answered == nil }
    var order: (String, Instant) { (subject, at) }

    var description: String {
        "\(subject) (\(story.name)) at \(at): expected \(expected), answered \(answered?.description ?? "nothing")"
            + (isIncomplete ? ", but not all was delivered" : "")
    }
}
