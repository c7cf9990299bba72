import Encoding
import Subscriptions
import Testing

@Suite("A refund request at an earlier instant has nothing that came later")
struct RefundRequestTimeTests {
    private static func time(_ hour: Int) -> Instant {
        Instant.earliest.advanced(by: .seconds(1_780_000_000 + hour * 3600))
    }

    /// Asked at hour 1, stated at hour 2, sent at hour 3, granted at hour 5, and reversed at hour 9.
    private static func request(_ state: RefundRequest.Answer.State = .accepted) throws -> RefundRequest {
        RefundRequest(
            stream: StreamKey(app: "com.example.app", environment: .production), store: .apple, position: 1,
            purchase: RefundRequest.Purchase(
                transactionId: "1", originalTransactionId: "1", productId: "p", productType: nil, appAccountToken: nil,
                isAdvancedCommerce: false),
            reason: nil, requests: 1, receivedAt: time(1), deadline: time(13), pendingRefundToken: nil,
            decision: RefundRequest.Decision(isGranted: true, decidedAt: time(5), reversedAt: time(9)),
            answer: RefundRequest.Answer(
                content: try ConsumptionAnswer(isSampleProvided: false, delivery: .delivered), author: .backend,
                statedAt: time(2), state: state, attempts: 1, askedAt: time(3), problem: nil))
    }

    @Test("each part is there from the instant at which it was known")
    func parts() throws {
        let request = try Self.request()
        let parts = (0...9).map { hour in
            guard let known = request.known(at: Self.time(hour)) else { return "none" }
            let decision = known.decision.map { $0.reversedAt == nil ? " granted" : " reversed" } ?? ""
            return known.state(at: Self.time(hour)).rawValue + decision
        }

        #expect(
            parts == [
                "none", "waiting", "pending", "accepted", "accepted", "accepted granted", "accepted granted",
                "accepted granted", "accepted granted", "accepted reversed",
            ])
        #expect(request.known(at: Self.time(9)) == request)
    }

    @Test("a decision of which the ledger learned later is not known, although the store had made it")
    func late() throws {
        let known = try Self.request().known(at: Self.time(6), without: [Self.time(5)])

        #expect(known?.decision == nil && known?.answer?.state == .accepted)
    }

    @Test("an answer is late from the deadline on")
    func tooLate() throws {
        let request = try Self.request(.late)

        #expect(request.known(at: Self.time(12))?.answer?.state == .pending)
        #expect(request.known(at: Self.time(13))?.answer?.state == .late)
    }
}
