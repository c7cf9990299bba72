import AppStore
import Encoding
import EventLog
import Subscriptions

/// Stores Apple's answers about receipts that were handed in, and links the purchases.
struct HandInAnswers: Sendable {
    let answers: AnswerStore
    let handIns: HandInLog
    let log: LogReader
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
        let kept: AnswerStore.Kept
        switch try await answers.store(answer, of: claim.app, known: known) {
        case .success(let stored): kept = stored
        case .failure(let refusal):
            let findings = HandIn.Findings(
                refusal: refusal, status: answer.answer.status, environment: answer.host.environment)
            return Outcome(.refused, findings)
        }
        let verified = kept.verified
        var findings = HandIn.Findings(
            status: Int32(clamping: verified.status.number), environment: verified.stream.environment,
            registration: kept.before.isEmpty ? .new : .known, subscriptions: kept.ids, position: kept.position)
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
