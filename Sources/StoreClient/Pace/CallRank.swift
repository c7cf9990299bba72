/// Why a question is asked. While the budget is short, all hand-ins come before checks, and those before backfills. Hand-ins
/// of strangers have a share of their own, so that they come before nothing for long.
package enum AskPriority: Sendable, CaseIterable {
    /// A backend handed a receipt in, and a customer may be waiting.
    case handIn
    /// The same, and nothing proves that the purchase exists: anyone can invent one.
    case stranger
    /// The same, later: no hand-in waits for the answer any more.
    case strangerLater
    /// A scheduled check of a subscription.
    case check
    /// The past of an account is read, which changes nothing that happens now.
    case backfill
}

/// The rank of a waiting call: the order of the cases is the order in which calls are admitted.
enum CallRank: Int, Sendable, CaseIterable {
    /// A further call of a question, such as a retry. It comes first, so that questions that have begun end.
    case handInContinued
    case handIn
    case strangerContinued
    case stranger
    case strangerLater
    case checkContinued
    case check
    case backfillContinued
    case backfill

    init(_ priority: AskPriority, isFirst: Bool) {
        self =
            switch priority {
            case .handIn: isFirst ? .handIn : .handInContinued
            case .stranger: isFirst ? .stranger : .strangerContinued
            case .strangerLater: isFirst ? .strangerLater : .strangerContinued
            case .check: isFirst ? .check : .checkContinued
            case .backfill: isFirst ? .backfill : .backfillContinued
            }
    }

    var isFirst: Bool {
        switch self {
        case .handIn, .stranger, .strangerLater, .check, .backfill: true
        case .handInContinued, .strangerContinued, .checkContinued, .backfillContinued: false
        }
    }

    var isOfStranger: Bool { self == .stranger || self == .strangerLater || self == .strangerContinued }
}
