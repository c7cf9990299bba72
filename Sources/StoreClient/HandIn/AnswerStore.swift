import AppStore
import Encoding
import EventLog
import Readers
import Subscriptions

/// Stores Apple's answers about receipts that were handed in: appends what they state, and links the purchases.
struct AnswerStore: Sendable {
    let apps: Apps
    let handIns: HandInLog
    let log: LogReader
    let subscriptions: SubscriptionReader
    let appender: Appender
    let links: LinkService
    let clock: StoreClock

    struct Outcome: Sendable {
        let state: HandIn.State
        let findings: HandIn.Findings
        /// The last position that was appended, or that the customer's links have.
        let lastPosition: Int64?

        fileprivate init(_ state: HandIn.State, _ findings: HandIn.Findings, lastPosition: Int64? = nil) {
            self.state = state
            self.findings = findings
            self.lastPosition = lastPosition
        }
    }

    /// Verifies an answer, appends it if it states something new, and links its purchases to the customer.
    ///
    /// Safe to repeat: what was appended before states nothing new.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    func store(_ answer: AnswerFromApple, _ claim: ClaimedReceipt) async throws -> Outcome {
        let known = try await handIns.subscriptions(ofReceipt: answer.receipt.digest, app: claim.app)
        let verified: VerifiedReceipt
        do throws(ReceiptRefusal) {
            verified = try apps.verify(answer, of: claim.app, subscriptions: known)
        } catch {
            let findings = HandIn.Findings(
                refusal: error, status: answer.answer.status, environment: answer.host.environment)
            return Outcome(.refused, findings)
        }
        let ids = verified.event.subscriptions.sorted().map(\.text)
        let stored = try await subscriptions.subscriptions(ids, in: verified.stream)
        var findings = HandIn.Findings(
            status: Int32(clamping: verified.status.number), environment: verified.stream.environment,
            registration: stored.isEmpty ? .new : .known, subscriptions: ids)
        if try await isNews(verified, ids, stored, receivedAt: answer.receivedAt) {
            let event = PreparedEvent(verified, receivedAt: answer.receivedAt)
            findings.position = try await appender.append(event).position
        }
        guard verified.event.accountDeletions.isEmpty else {
            findings.problem = ReceiptRefusal.status(verified.status).label
            return Outcome(.refused, findings, lastPosition: findings.position)
        }
        guard let customerId = claim.customerId else {
            return Outcome(.answered, findings, lastPosition: findings.position)
        }
        let linked = try await link(verified, to: customerId, &findings)
        return Outcome(.answered, findings, lastPosition: [findings.position, linked].compactMap(\.self).max())
    }

    /// Whether an answer is to be appended: it changes what is known, or it is the first receipt of a subscription, with
    /// which Apple can be asked from now on.
    ///
    /// If the projections lag, an answer may be appended once too often, which changes nothing.
    private func isNews(
        _ verified: VerifiedReceipt, _ ids: [String], _ stored: [SubscriptionReader.Stored], receivedAt: Instant
    ) async throws -> Bool {
        guard stored.count == ids.count else { return true }
        let isChanged = stored.contains { known in
            known.facts.isChanged(by: verified.event, receivedAt: receivedAt, products: known.products)
        }
        if isChanged { return true }
        let positions = stored.reduce(into: Set<Int64>()) { $0.formUnion($1.facts.positions) }
        let withReceipt = try await log.positionsWithReceipt(among: positions.sorted(), in: verified.stream)
        return stored.contains { $0.facts.positions.isDisjoint(with: withReceipt) }
    }

    /// Links the purchases to a customer, as the app's ownership permits, and adds what came of it to the findings.
    ///
    /// - Returns: The position of the customer's links; nil if it has none.
    private func link(
        _ verified: VerifiedReceipt, to customerId: String, _ findings: inout HandIn.Findings
    ) async throws -> Int64? {
        let purchases = Self.newestFirst(verified.event)
        guard !purchases.isEmpty else { return nil }
        let now = clock.date()
        let owners = try await log.linkedOwners(of: purchases, in: verified.stream, at: now)
        if !owners.subtracting([ByteString(customerId)]).isEmpty { findings.registration = .otherCustomer }
        switch try await links.add(purchases, to: customerId, in: verified.stream, receivedAt: now) {
        case .stated(let position, _):
            findings.isLinked = true
            return position
        case .contested:
            findings.registration = .otherCustomer
            findings.isLinked = false
            return nil
        }
    }

    /// The `originalTransactionId`s that can be linked, those with the newest purchase first.
    private static func newestFirst(_ event: Event) -> [String] {
        var latest: [ByteString: Instant] = [:]
        for id in event.subscriptions where (try? LinkStatement.check(id.text, "originalTransactionId")) != nil {
            latest[id] = .earliest
        }
        for transaction in event.transactions {
            let id = ByteString(transaction.originalTransactionId)
            guard let known = latest[id], let purchaseDate = transaction.purchaseDate else { continue }
            latest[id] = max(known, purchaseDate)
        }
        return latest.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map(\.key.text)
    }
}
