/// Why a question is asked. While the budget is short, all hand-ins come before checks, and those before backfills.
package enum AskPriority: Sendable, CaseIterable {
    /// A backend handed a receipt in, and a customer may be waiting.
    case handIn
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
    case checkContinued
    case check
    case backfillContinued
    case backfill

    init(_ priority: AskPriority, isFirst: Bool) {
        self =
            switch priority {
            case .handIn: isFirst ? .handIn : .handInContinued
            case .check: isFirst ? .check : .checkContinued
            case .backfill: isFirst ? .backfill : .backfillContinued
            }
    }

    var isFirst: Bool { self == .handIn || self == .check || self == .backfill }
}
