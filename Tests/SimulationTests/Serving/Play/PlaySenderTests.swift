import Encoding
import Foundation
import Simulation
import Synchronization
import Testing

@Suite("The simulated Pub/Sub pushes at least once, and holds the whole subscription back after a failure")
struct PlaySenderTests {
    /// The app's server, which keeps what it was sent.
    private final class Target: Sendable {
        struct State {
            var requests: [PlaySending.Request] = []
            /// By message id; any other is answered 200.
            var statuses: [String: [Int?]] = [:]
            var standard: Int? = 200
        }

        let state = Mutex(State())

        @Sendable func answer(_ request: PlaySending.Request) async -> Int? {
            let id = PlaySenderTests.messageId(request) ?? ""
            return state.withLock { state in
                state.requests.append(request)
                guard var left = state.statuses[id], !left.isEmpty else { return state.standard }
                let next = left.removeFirst()
                state.statuses[id] = left
                return next
            }
        }

        var requests: [PlaySending.Request] { state.withLock { $0.requests } }
    }

    private static func messageId(_ request: PlaySending.Request) -> String? {
        let message = PlayJSON(request.body).json["message"] as? [String: Any]
        return (message?["messageId"] ?? message?["message_id"]) as? String
    }

    private func bundle(
        _ target: Target, _ stories: [PlayStory] = [.cancelled], count: Int = 1, isAcknowledgedByApp: Bool = true,
        _ change: (inout PlaySending) -> Void = { _ in }
    ) throws -> PlayBundle {
        var sending = PlaySending(audience: "https://ledger.example.com/google/notifications", post: target.answer)
        sending.connections = 1
        change(&sending)
        return try PlayBundle(stories, count: count, isAcknowledgedByApp: isAcknowledgedByApp, now: Simulation.start) {
            $0.sending = sending
        }
    }

    @Test("the next push is known, so that a clock can go from one to the next; nothing comes between them")
    func nextPush() async throws {
        let target = Target()
        let bundle = try bundle(target, [.cancelled, .graceRecovered], count: 2)
        var last = Simulation.start
        var counts: [Int] = []

        await bundle.play.setClock(last)
        while let next = bundle.play.nextPush, counts.count < 1000 {
            await bundle.play.setClock(max(last, next.advanced(byMilliseconds: -1)))
            counts.append(target.requests.count)
            last = next
            await bundle.play.setClock(next)
        }

        let messages = bundle.play.story(0).messages + bundle.play.story(1).messages
        #expect(target.requests.count == messages.count)
        #expect(counts == counts.sorted() && counts.count >= messages.count)
        #expect(last >= messages.map(\.publishTime).max() ?? .latest)
    }

    @Test("each message is pushed once, shortly after its publication, with a valid token and an envelope")
    func delivery() async throws {
        let target = Target()
        let bundle = try bundle(target)

        await bundle.play.setClock(Simulation.end)
        await bundle.play.setClock(Simulation.end)

        let messages = bundle.life.messages
        #expect(target.requests.compactMap { Self.messageId($0) } == messages.map(\.messageId))
        #expect(bundle.play.deliveries.map(\.at) == messages.map { $0.publishTime.advanced(byMilliseconds: 50) })
        #expect(bundle.play.deliveries.allSatisfy { $0.status == 200 && $0.attempt == 1 && $0.kind == .message })
        for request in target.requests {
            let token = try #require(request.headers.first { $0.name == "authorization" }).value.dropFirst(7)
            #expect(bundle.play.publishedKeys.contains { $0.isSigner(of: String(token)) })
            let json = PlayJSON(request.body).json
            #expect(json["subscription"] as? String == "projects/simulated-project/subscriptions/play")
            #expect(json["deliveryAttempt"] == nil)
        }
    }

    @Test("a message is pushed when the clock reaches it, not before")
    func clock() async throws {
        let target = Target()
        let bundle = try bundle(target)
        let second = try #require(bundle.life.messages.dropFirst().first)

        await bundle.play.setClock(second.publishTime.advanced(byMilliseconds: 49))
        let before = target.requests.count
        await bundle.play.setClock(second.publishTime.advanced(byMilliseconds: 50))

        #expect(before == 1 && target.requests.count == 2)
    }

    @Test("a failed message comes again after 10 s, then twice as long, and holds the others back meanwhile")
    func retry() async throws {
        let target = Target()
        let bundle = try bundle(target) { $0.hasDeadLetterTopic = true }
        let first = bundle.life.messages[0]
        target.state.withLock { $0.statuses[first.messageId] = [500, nil, 403] }

        await bundle.play.setClock(Simulation.end)

        let attempts = bundle.play.deliveries.filter { $0.messageId == first.messageId }
        let start = first.publishTime.advanced(byMilliseconds: 50)
        #expect(attempts.map(\.at) == [0, 10, 30, 70].map { start.advanced(by: .seconds($0)) })
        #expect(attempts.map(\.status) == [500, nil, 403, 200] && attempts.map(\.attempt) == [1, 2, 3, 4])
        let sent = target.requests.compactMap { PlayJSON($0.body).json["deliveryAttempt"] as? Int }
        #expect(sent.prefix(4) == [1, 2, 3, 4])
    }

    @Test("after a failure the whole subscription waits, twice as long each time, up to a minute")
    func backOff() async throws {
        let target = Target()
        let bundle = try bundle(target, [.cancelled], count: 400) { $0.retry = .immediately }
        await bundle.play.setClock(try #require(Instant(iso8601: "2025-06-01T00:00:00Z")))
        let before = bundle.play.deliveries.count
        target.state.withLock { $0.standard = 503 }

        await bundle.play.setClock(try #require(Instant(iso8601: "2025-06-02T00:00:00Z")))

        let failed = bundle.play.deliveries.dropFirst(before)
        let waits = zip(failed, failed.dropFirst()).map { $0.at.duration(to: $1.at) }
        let expected = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000]
        #expect(waits.prefix(12) == expected.map { .milliseconds($0) }.prefix(12))
        #expect(failed.count > 1000 && failed.count <= 1450, "at most one push a minute")
        // The others of the day wait too, and all arrive when the server is back.
        target.state.withLock { $0.standard = 200 }
        await bundle.play.setClock(try #require(Instant(iso8601: "2025-06-02T00:02:00Z")))
        let day = (0..<400).flatMap { bundle.play.story($0).messages }.filter {
            ("2025-06-01"..<"2025-06-02").contains($0.publishTime.description)
        }
        let arrived = Set(bundle.play.deliveries.filter(\.isAcknowledged).map(\.messageId))
        #expect(day.count > 3 && day.allSatisfy { arrived.contains($0.messageId) })
    }

    @Test("a message is kept for seven days")
    func kept() async throws {
        let target = Target()
        let bundle = try bundle(target, [.cancelled])
        target.state.withLock { $0.standard = nil }
        let first = bundle.life.messages[0]
        await bundle.play.setClock(first.publishTime.advanced(by: .seconds(7 * 86_400 - 700)))
        let deliveries = bundle.play.deliveries.filter { $0.messageId == first.messageId }.count
        target.state.withLock { $0.standard = 200 }

        await bundle.play.setClock(first.publishTime.advanced(by: .seconds(7 * 86_400 + 700)))

        #expect(deliveries > 100 && bundle.play.expiredMessages == 0)
        #expect(bundle.play.deliveries.last { $0.messageId == first.messageId }?.isAcknowledged == true)
        let lost = try self.bundle(Target(), [.cancelled])
        await lost.play.setClock(Simulation.start)
        #expect(lost.play.deliveries.isEmpty)
    }

    @Test("messages arrive shuffled, twice, or never, by the seed")
    func disorder() async throws {
        let target = Target()
        let bundle = try bundle(target, PlayStory.allCases, count: 84) {
            $0.delayMax = .seconds(3 * 86_400)
            $0.duplicate = 0.2
            $0.lose = 0.3
        }

        await bundle.play.setClock(Simulation.end.advanced(by: .seconds(7 * 86_400)))

        let all = (0..<84).flatMap { bundle.play.story($0).messages }
        let sent = target.requests.compactMap { Self.messageId($0) }
        let distinct = Set(sent)
        #expect(abs(Double(all.count - distinct.count) / Double(all.count) - 0.3) < 0.06)
        #expect(abs(Double(sent.count - distinct.count) / Double(distinct.count) - 0.2) < 0.06)
        let times = Dictionary(uniqueKeysWithValues: all.map { ($0.messageId, $0.publishTime) })
        let inOrder = zip(sent, sent.dropFirst()).count { times[$0]! <= times[$1]! }
        #expect(inOrder < sent.count * 9 / 10)
        #expect(bundle.play.deliveries.filter { $0.kind == .duplicate }.count == sent.count - distinct.count)
    }

    @Test("both spellings and each alone are sent in turn; an unwrapped subscription sends the message alone")
    func spellings() async throws {
        let target = Target()
        let bundle = try bundle(target)
        await bundle.play.setClock(Simulation.end)
        let unwrapped = Target()
        let alone = try self.bundle(unwrapped) { $0.wrapping = .unwrapped(writesMetadata: true) }

        await alone.play.setClock(Simulation.end)

        let keys = target.requests.prefix(3).map {
            Set((PlayJSON($0.body).json["message"] as? [String: Any] ?? [:]).keys)
        }
        #expect(keys.contains { $0.contains("messageId") && $0.contains("message_id") })
        #expect(keys.contains { !$0.contains("messageId") } && keys.contains { !$0.contains("message_id") })
        let request = try #require(unwrapped.requests.first)
        #expect(request.body == alone.life.messages[0].notification(PlayRendering(packageName: PlayBundle.packageName)))
        #expect(request.headers.contains { $0.name == "x-goog-pubsub-message-id" && $0.value.count == 17 })
    }

    @Test("forged copies are not repeated; damaged ones are genuine pushes")
    func forged() async throws {
        let target = Target()
        let bundle = try bundle(target, PlayStory.allCases, count: 84) {
            $0.forged = 0.5
            $0.malformed = 0.5
        }
        await bundle.play.setClock(try #require(Instant(iso8601: "2025-06-01T00:00:00Z")))
        target.state.withLock { $0.standard = 401 }

        await bundle.play.setClock(try #require(Instant(iso8601: "2025-06-03T00:00:00Z")))

        let forged = bundle.play.deliveries.filter { if case .forged = $0.kind { true } else { false } }
        #expect(forged.contains { $0.status == 401 } && forged.allSatisfy { $0.attempt == 1 })
        #expect(forged.count == Set(forged.map(\.messageId)).count)
        target.state.withLock { $0.standard = 204 }
        await bundle.play.setClock(Simulation.end.advanced(by: .seconds(86_400)))
        let kinds = Set(bundle.play.deliveries.map { "\($0.kind)" })
        #expect(kinds.count == 2 + OIDCToken.Defect.allCases.count, "\(kinds)")
        #expect(bundle.play.deliveries.contains { $0.kind == .malformed && $0.isAcknowledged })
    }

    @Test("an acknowledgement changes what is pushed from the deadline on")
    func acknowledgement() async throws {
        func types(_ isAcknowledged: Bool) async throws -> [Int?] {
            let target = Target()
            let bundle = try bundle(target, isAcknowledgedByApp: false)
            await bundle.play.setClock(bundle.life.messages[0].publishTime.advanced(by: .seconds(3600)))
            if isAcknowledged { #expect(bundle.acknowledge()?.status == 204) }
            await bundle.play.setClock(Simulation.end)
            let messages = bundle.life.messages
            return target.requests.map { request in
                messages.first { $0.messageId == Self.messageId(request) }?.subscriptionType?.rawValue
            }
        }

        #expect(try await types(false) == [4, 12, 13, nil])
        let going = try await types(true)
        #expect(going.first == 4 && going.suffix(2) == [3, 13] && !going.contains(12))
    }

    @Test("a test message and any bytes are pushed on request")
    func byHand() async throws {
        let target = Target()
        let bundle = try bundle(target)

        await bundle.play.pushTest()
        await bundle.play.push(data: Array("{".utf8), messageId: "5000")

        #expect(target.requests.count == 2 && Self.messageId(target.requests[1]) == "5000")
        let message = PlayJSON(target.requests[0].body).json["message"] as? [String: Any]
        let data = Base64.decode(Array((message?["data"] as? String ?? "").utf8)[...], .standard) ?? []
        #expect(PlayJSON(data).json["testNotification"] != nil)
    }
}
