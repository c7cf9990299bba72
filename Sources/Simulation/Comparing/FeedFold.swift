import Encoding

/// The access that a change feed states: folded from its changes alone, as a backend would that reads nothing else.
struct FeedFold: Sendable {
    private struct Access: Sendable, Hashable {
        var productId: String?
        var until: Instant
    }

    /// What is wrong with the feed itself: a missing change, or one that does not follow from those before it.
    private(set) var problems: [String] = []
    /// The number of the last change.
    private(set) var last: Int64 = 0
    /// The subscriptions with access.
    private var active: [String: Access] = [:]
    /// The ends that access had, and the instants at which changes took effect by the clock, by subscription.
    private(set) var instants: [String: Set<Instant>] = [:]

    /// The subscriptions that the feed names.
    var subscriptions: Set<String> { Set(instants.keys) }

    mutating func add(_ change: FeedChange) {
        if change.number != last + 1 { problems.append("change \(change.number) follows change \(last)") }
        last = change.number
        guard let kind = change.kind else { return }
        let before = active[change.subscription]
        let after = change.until.map { Access(productId: change.productId, until: $0) }
        if !Self.fits(kind, from: before, to: after, change) {
            problems.append(
                "change \(change.number) of \(change.subscription) is \(kind.rawValue) after "
                    + Self.text(before).description)
        }
        active[change.subscription] = kind == .closed ? nil : after
        let stated = [change.until, change.isByClock ? change.at : nil].compactMap(\.self).filter { $0 < .latest }
        instants[change.subscription, default: []].formUnion(stated)
    }

    /// Whether the change may lead from one access to the other.
    private static func fits(
        _ kind: FeedChange.Kind, from before: Access?, to after: Access?, _ change: FeedChange
    ) -> Bool {
        switch (kind, before, after) {
        case (.opened, nil, .some): true
        case (.extended, let before?, let after?): before.productId == after.productId && before.until < after.until
        case (.shortened, let before?, let after?): before.productId == after.productId && after.until < before.until
        case (.productChanged, let before?, let after?): before.productId != after.productId
        case (.productAdded, .some, .some), (.productRemoved, .some, .some): true
        case (.closed, let before?, nil):
            before.productId == change.productId && (!change.isByClock || before.until == change.at)
        default: false
        }
    }

    /// The access after the last change.
    func access(of subscription: String) -> AccessText { Self.text(active[subscription]) }

    private static func text(_ access: Access?) -> AccessText {
        guard let access else { return .notActive }
        return AccessText(
            active: true, until: access.until == .latest ? nil : access.until, productId: access.productId)
    }
}

// MARK: - Books

extension FeedFold {
    /// What is wrong with the feed, each as one line.
    ///
    /// - Parameters:
    ///   - books: The expected access by subscription.
    ///   - instant: The time until which the feed was read.
    ///   - isOwn: Whether a subscription that is not in the books belongs to the run: the feed must not name it.
    func differences(from books: [String: AccessBook], at instant: Instant, isOwn: (String) -> Bool) -> [String] {
        var differences = problems
        for (subscription, book) in books.sorted(by: { $0.key < $1.key }) {
            let end = book.unbrokenEnd(at: instant)
            let product = book.product(at: instant)?.id
            let expected = AccessText(
                active: end != nil, until: end == .latest ? nil : end, productId: end == nil ? nil : product)
            let stated = access(of: subscription).limited(to: expected)
            if stated != expected {
                differences.append("\(subscription) at \(instant): expected \(expected), the feed says \(stated)")
            }
            for other in (instants[subscription] ?? []).subtracting(book.boundaries).sorted() {
                differences.append("\(subscription): access never began or ended at \(other), as the feed says")
            }
        }
        for subscription in subscriptions.sorted() where books[subscription] == nil && isOwn(subscription) {
            differences.append("\(subscription): no subscription has this id")
        }
        return differences
    }
}
