import AppStore
import Encoding
import EventLog
import Subscriptions

/// Stores Apple's answers about receipts that were handed in, and links the purchases.
struct HandInAnswers: Sendable {
    let answers: AnswerStore
    let handIns: HandInLog
    let purchases: PurchaseLinks

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
        let linked = try await purchases.link([verified.event], to: customerId, in: verified.stream)
        if linked.isOfOtherCustomer { findings.registration = .otherCustomer }
        findings.isLinked = linked.isLinked
        return Outcome(
            .answered, findings, lastPosition: [findings.position, linked.position].compactMap(\.self).max())
    }
}
