import Encoding
import Simulation
import Testing

@Suite("The simulated Google Play takes answers about charge-backs")
struct PlayReviewTests {
    private struct Question {
        let bundle: PlayBundle
        let orderId: String
        let token: String
        let askedAt: Instant

        init() throws {
            bundle = try PlayBundle([.chargeBack])
            let message = try #require(
                bundle.story.messages.first { if case .refundReview = $0.content { true } else { false } })
            guard case .refundReview(let orderId, _) = message.content else { throw Missing() }
            self.orderId = orderId
            askedAt = message.eventTime
            let notification = PlayJSON(message.notification(bundle.play.settings.rendering)).json
            let section = notification["pendingRefundReviewNotification"] as? [String: Any]
            token = try #require(section?["pendingRefundToken"] as? String)
            bundle.play.now = askedAt
        }

        func answer(_ body: String, order: String? = nil) -> PlayResponse? {
            bundle.call("POST", "orders/\(order ?? orderId):reviewrefund", body: body)
        }

        func body(_ more: String = "", preference: String = "DECLINE") -> String {
            #"{"pendingRefundToken":"\#(token)","sampleContentProvided":true,"refundPreference":"\#(preference)"\#(more)}"#
        }
    }

    private struct Missing: Error {}

    @Test("the first answer to a question counts, and later ones are ignored")
    func first() throws {
        let question = try Question()

        let first = question.answer(question.body())
        let second = question.answer(question.body(preference: "APPROVE"))

        #expect(first?.status == 204 && second?.status == 204)
        #expect(
            question.bundle.play.refundReviews.map { String(decoding: $0.body, as: UTF8.self) } == [question.body()])
        #expect(question.bundle.play.refundReviews.first?.orderId == question.orderId)
    }

    @Test("an answer is taken for a day after the question, and not before it")
    func deadline() throws {
        let question = try Question()

        question.bundle.play.now = question.askedAt.advanced(byMilliseconds: -1)
        #expect(question.answer(question.body())?.problem == "400 invalidValue")
        question.bundle.play.now = question.askedAt.advanced(byMilliseconds: 86_400_000)
        #expect(question.answer(question.body())?.problem == "400 invalidPurchaseState")
        question.bundle.play.now = question.askedAt.advanced(byMilliseconds: 86_399_999)
        #expect(question.answer(question.body())?.status == 204)
    }

    @Test("what the reference requires is required, and other values are refused")
    func rules() throws {
        let question = try Question()
        let token = #""pendingRefundToken":"\#(question.token)""#

        for (body, problem) in [
            ("{}", "400 required"), ("", "400 invalidValue"), ("[]", "400 invalidValue"),
            (#"{"sampleContentProvided":true,"refundPreference":"DECLINE"}"#, "400 required"),
            (#"{\#(token),"refundPreference":"DECLINE"}"#, "400 required"),
            (#"{\#(token),"sampleContentProvided":true}"#, "400 required"),
            (
                #"{"pendingRefundToken":"x","sampleContentProvided":true,"refundPreference":"DECLINE"}"#,
                "400 invalidValue"
            ),
            (question.body(preference: "GRANT_FULL"), "400 invalidValue"),
            (question.body(#","consumptionPercentageMilliunits":100001"#), "400 invalidValue"),
            (question.body(#","consumptionPercentageMilliunits":-1"#), "400 invalidValue"),
        ] {
            #expect(question.answer(body)?.problem == problem, "\(body)")
        }
        #expect(question.answer(question.body(), order: "GPA.1")?.problem == "404 notFound")
        #expect(question.bundle.play.refundReviews.isEmpty)
        for preference in ["APPROVE", "DECLINE", "NEUTRAL"] {
            let other = try Question()
            let more = #","consumptionPercentageMilliunits":100000"#
            #expect(other.answer(other.body(more, preference: preference))?.status == 204)
        }
    }
}
