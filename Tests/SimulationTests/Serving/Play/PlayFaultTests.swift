import Encoding
import Simulation
import Testing

@Suite("Faults and quotas of the simulated Google Play Developer API")
struct PlayFaultTests {
    @Test(
        "every error of Google's table can be injected, and the next request is answered",
        arguments: PlayFault.finalErrors + PlayFault.passingErrors)
    func errors(error: PlayError) throws {
        let bundle = try PlayBundle()
        bundle.play.now = bundle.life.tokens[0].history[0].at

        bundle.play.inject(.error(error))

        let refused = bundle.subscription()
        #expect(refused?.problem == "\(error.code) \(error.reason)")
        let body = refused?.json["error"] as? [String: Any]
        #expect(body?["code"] as? Int == error.code && body?["message"] as? String == error.message)
        #expect(bundle.subscription()?.status == 200)
        #expect(bundle.play.counts.map(\.question.status) == [error.code, 200])
    }

    @Test("pages, empty bodies, cut bodies, latency and closed connections")
    func bodies() throws {
        let bundle = try PlayBundle()
        bundle.play.now = bundle.life.tokens[0].history[0].at
        let whole = bundle.subscription()
        for fault in [PlayFault.unavailable, .emptyError, .cutOff, .slow, .backend(isSlow: true), .dropped] {
            bundle.play.inject(fault)
        }

        let answers = (0..<6).map { _ in bundle.subscription() }

        #expect(answers[0]?.status == 503 && answers[0]?.contentType?.hasPrefix("text/html") == true)
        #expect(answers[1]?.status == 500 && answers[1]?.body == [])
        #expect(answers[2]?.status == 200 && answers[2]?.body == whole.map { Array($0.body.prefix($0.body.count / 2)) })
        #expect(answers[3]?.isSlow == true && answers[3]?.body == whole?.body)
        #expect(answers[4]?.isSlow == true && answers[4]?.problem == "500 backendError")
        #expect(answers[5] == nil)
    }

    @Test("each bucket has its own requests per minute", arguments: PlayQuota.Form.allCases)
    func quota(form: PlayQuota.Form) throws {
        let bundle = try PlayBundle {
            $0.quota.perMinute = 2
            $0.quota.form = form
            $0.quota.retryAfter = .seconds
        }
        let minute = bundle.life.tokens[0].history[0].at.milliseconds / 60_000 + 1
        bundle.play.now = try #require(Instant(milliseconds: minute * 60_000 + 15_000))

        let answers = (0..<3).map { _ in bundle.subscription() }
        let order = bundle.call("orders/\(bundle.life.orders[0].orderId)")

        #expect(answers.map { $0?.status == 200 } == [true, true, false] && order?.status == 200)
        let expected =
            switch form {
            case .forbidden: "403 rateLimitExceeded"
            case .tooManyRequests, .daily: "429 rateLimitExceeded"
            case .quotaExceeded: "429 quotaExceeded"
            }
        #expect(answers[2]?.problem == expected && answers[2]?.retryAfter == "45")
        #expect(bundle.play.quota.violations == 1)
        #expect(bundle.play.quota.busiestMinutes == [.subscriptions: 3, .orders: 1])
        bundle.play.now = bundle.play.now.advanced(byMilliseconds: 45_000)
        #expect(bundle.subscription()?.status == 200)
    }

    @Test("a quota of a day ends at midnight in California; Retry-After can be a date")
    func daily() throws {
        let bundle = try PlayBundle {
            $0.quota.perDay = 1
            $0.quota.retryAfter = .date
        }
        bundle.play.now = try #require(Instant(iso8601: "2026-06-02T07:59:30Z"))
        let statuses = (0..<2).map { _ in bundle.call("orders/\(bundle.life.orders[0].orderId)") }
        bundle.play.now = try #require(Instant(iso8601: "2026-06-02T08:00:00Z"))
        let next = bundle.call("orders/\(bundle.life.orders[0].orderId)")

        #expect(statuses[0]?.status == 200 && statuses[1]?.problem == "429 dailyLimitExceeded" && next?.status == 200)
        #expect(statuses[1]?.retryAfter == "Tue, 02 Jun 2026 08:00:00 GMT")
    }

    @Test("the list of voided purchases has a quota of its own")
    func voids() throws {
        let bundle = try PlayBundle()

        let statuses = (0..<31).map { _ in bundle.call("purchases/voidedpurchases")?.status }

        #expect(statuses.prefix(30).allSatisfy { $0 == 200 } && statuses.last == 429)
    }

    @Test("a client that goes on asking gets the right answer in the end", arguments: [0.3, 0.7])
    func seeded(fraction: Double) throws {
        let bundle = try PlayBundle { $0.faults = fraction }
        var wrong = 0
        let start = bundle.life.tokens[0].history[0].at
        for number in 0..<300 {
            // Never final: whatever is drawn passes.
            bundle.play.now = start.advanced(by: .seconds(number * 61))
            let status = bundle.subscription()?.status
            if status != 200 { wrong += 1 }
            #expect(status.map { ![400, 404, 410].contains($0) } ?? true)
        }

        let share = Double(wrong) / 300
        #expect(abs(share - fraction) < 0.2, "fraction \(fraction), seed 1: \(wrong) of 300")
        let again = try PlayBundle { $0.faults = fraction }
        again.play.now = start
        #expect(again.subscription()?.status == bundle.play.counts.first?.question.status)
    }

    @Test("in an outage the API and the token endpoint answer 503, and afterwards as before")
    func outage() throws {
        let begin = Simulation.start.advanced(by: .seconds(400 * 86_400))
        let end = begin.advanced(by: .seconds(86_400))
        let bundle = try PlayBundle([.cancelled]) { $0.outage = begin..<end }
        bundle.play.now = begin

        let during = bundle.subscription()
        let token = bundle.play.tokenResponse(contentType: "application/x-www-form-urlencoded", body: [])
        bundle.play.now = end

        #expect(during?.status == 503 && token.status == 503)
        #expect(bundle.subscription().map { $0.status != 503 } == true)
    }
}
