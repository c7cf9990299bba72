import Encoding
import Subscriptions

/// The expected access, status and owner of one subscription or one-time purchase at every instant.
///
/// The actions of a story write it directly. It is not derived from the store's books or from its answers, so it can
/// check code that reads them.
package struct PlayAnswerKey: Sendable, Hashable {
    private struct DatedStatus: Sendable, Hashable {
        let from: Instant
        let status: PlayStatus
        /// What a server shows until an answer shows the status, if no answer contains the time of the change.
        let shownBefore: PlayStatus?
    }

    private struct Buyer: Sendable, Hashable {
        let from: Instant
        let accountId: String
    }

    package internal(set) var access = AccessBook()
    private var statuses: [DatedStatus] = []
    private var buyers: [Buyer] = []

    /// The status as known at the end of the story; nil before the purchase. A time that was paid for and taken back counts
    /// as refunded from its start.
    package func status(at instant: Instant) -> PlayStatus? {
        isTakenBack(at: instant) ? .refunded : statuses.last { $0.from <= instant }?.status
    }

    private func isTakenBack(at instant: Instant) -> Bool {
        access.isTakenBack(at: instant) && !access.isActive(at: instant)
    }

    /// What a server may show instead of the status at an instant, until it has asked: no answer of the store contains the
    /// time of some changes.
    package func statusBeforeAnswer(at instant: Instant) -> PlayStatus? {
        isTakenBack(at: instant) ? nil : statuses.last { $0.from <= instant }?.shownBefore
    }

    /// The instants at which the status changes.
    package var statusChanges: [Instant] { statuses.map(\.from) }

    /// The `obfuscatedExternalAccountId` of the owners under the policy: none if no purchase has one, several only if
    /// purchases are shared.
    package func owners(at instant: Instant, _ policy: OwnershipPolicy = .standard) -> Set<String> {
        Set(buyers(policy).filter { $0.during.contains(instant) }.map(\.accountId))
    }

    /// The app users who own the purchase under a policy, each with an interval. A user can have several.
    package func buyers(_ policy: OwnershipPolicy) -> [(accountId: String, during: Range<Instant>)] {
        let always = Instant.earliest..<Instant.latest
        switch policy {
        case .firstBuyer: return buyers.prefix(1).map { ($0.accountId, always) }
        case .shared: return Set(buyers.map(\.accountId)).sorted().map { ($0, always) }
        case .latestBuyer:
            // No other user claims what came before the first purchase with an id.
            let starts = buyers.enumerated().map { $0.offset == 0 ? Instant.earliest : $0.element.from }
            return zip(buyers, zip(starts, starts.dropFirst() + [.latest])).map { buyer, interval in
                (buyer.accountId, interval.0..<interval.1)
            }
        }
    }

    /// Sets the status from an instant on, instead of every later one.
    ///
    /// - Parameter shownBefore: What a server shows until it has asked, if the store's answers do not contain the instant.
    mutating func set(_ status: PlayStatus, at instant: Instant, shownBefore: PlayStatus? = nil) {
        statuses.removeAll { $0.from >= instant }
        guard statuses.last?.status != status else { return }
        statuses.append(DatedStatus(from: instant, status: status, shownBefore: shownBefore))
    }

    /// Removes every status that begins at the instant or later.
    mutating func endStatus(at instant: Instant) { statuses.removeAll { $0.from >= instant } }

    /// Notes that the store's answers no longer show the present status: a server that has not asked never knows it.
    mutating func forget() {
        guard let last = statuses.popLast() else { return }
        let before = statuses.last?.status ?? .never
        statuses.append(DatedStatus(from: last.from, status: last.status, shownBefore: before))
    }

    /// Records the app user of a purchase. A purchase without one belongs to the user of the purchase before it.
    mutating func buy(_ accountId: String?, at instant: Instant) {
        guard let accountId, buyers.last?.accountId != accountId else { return }
        buyers.append(Buyer(from: instant, accountId: accountId))
    }
}
