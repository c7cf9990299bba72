import Encoding
import Subscriptions
import Testing

@Suite("When Google is asked again")
struct PlayScheduleTests {
    private func check(
        _ state: PurchaseSnapshot.State, until: String = "2025-03-20", last: String,
        change: (inout PurchaseSnapshot) -> Void = { _ in }
    ) -> String? {
        var story = PlayStory()
        story.answer("2025-02-20T00:00:03Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
        story.answer("2025-02-21", state, start: "2025-02-20", until: until, order: "G", change: change)
        return story.subscription.nextCheck(after: day(last), policy: .standard)
            .map { "\($0.dueAt.description.prefix(16)) \($0.reason.rawValue)" }
    }

    @Test("an active purchase: after its expiry, in growing steps")
    func active() {
        #expect(check(.active, last: "2025-03-01") == "2025-03-20T00:05 renewal")
        #expect(check(.active, last: "2025-03-20T00:05:30Z") == "2025-03-20T01:00 retry")
        #expect(check(.active, last: "2025-03-20T01:00:30Z") == "2025-03-20T06:00 retry")
        #expect(check(.active, last: "2025-03-20T06:00:30Z") == "2025-03-21T00:00 retry")
        #expect(check(.active, last: "2025-03-21T00:00:30Z") == "2025-03-22T00:00 retry")
        #expect(check(.active, last: "2025-06-01") == nil)
    }

    @Test("a cancelled one: after its expiry")
    func canceled() {
        #expect(check(.canceled, last: "2025-03-01") == "2025-03-20T00:05 end")
        #expect(check(.canceled, last: "2025-03-21T00:00:30Z") == nil)
    }

    @Test("in grace: daily and at its end")
    func grace() {
        #expect(check(.inGracePeriod, until: "2025-03-27", last: "2025-03-21") == "2025-03-22T00:00 retry")
        #expect(check(.inGracePeriod, until: "2025-03-27", last: "2025-03-26T12:00:00Z") == "2025-03-27T00:00 retry")
    }

    @Test("in account hold: daily for a week, then every third day, for sixty days")
    func hold() {
        func hold(_ last: String) -> String? {
            var story = PlayStory()
            story.answer("2025-02-20T00:00:03Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
            story.answer("2025-03-20T00:00:30Z", .onHold, start: "2025-02-20", until: "2025-03-20", order: "G")
            return story.subscription.nextCheck(after: day(last), policy: .standard).map {
                String($0.dueAt.description.prefix(16))
            }
        }
        #expect(hold("2025-03-21") == "2025-03-22T00:00")
        #expect(hold("2025-04-01") == "2025-04-04T00:00")
        #expect(hold("2025-05-25") == nil)
    }

    @Test("paused: after it resumes by itself, then daily")
    func paused() {
        func paused(_ last: String) -> String? { check(.paused, last: last) { $0.autoResumeTime = day("2025-05-20") } }
        #expect(paused("2025-03-21") == "2025-05-20T00:05 renewal")
        #expect(paused("2025-05-21") == "2025-05-22T00:00 retry")
    }

    @Test("pending: hourly for a day, then daily")
    func pending() {
        func pending(_ last: String) -> String? {
            var story = PlayStory()
            story.answer("2025-02-20", .pending)
            return story.subscription.nextCheck(after: day(last), policy: .standard).map {
                String($0.dueAt.description.prefix(16))
            }
        }
        #expect(pending("2025-02-20T03:00:00Z") == "2025-02-20T04:00")
        #expect(pending("2025-02-23") == "2025-02-24T00:00")
    }

    @Test("expired: once more after a day, then never")
    func expired() {
        #expect(check(.expired, until: "2025-02-21", last: "2025-02-21") == "2025-02-22T00:00 end")
        #expect(check(.expired, until: "2025-02-21", last: "2025-02-22T00:00:01Z") == nil)
    }
}
