import Encoding
import Foundation
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The simulated store sends its notifications on its clock, and tries again on Apple's plan")
struct NotificationSenderTests {
    private static let hourMilliseconds: Int64 = 3_600_000

    /// Answers attempts, and keeps the UUIDs in the order of the attempts.
    private actor Target {
        private(set) var uuids: [String] = []
        private let failuresPerNotification: Int

        init(failuresPerNotification: Int) {
            self.failuresPerNotification = failuresPerNotification
        }

        func answer(_ body: [UInt8]) -> SendAttempt.Result {
            guard let text = try? JSONDocument(body).root.string("signedPayload"),
                let uuid = try? signedPayload(text)["notificationUUID"] as? String
            else { return .invalidResponse }
            let earlier = uuids.count { $0 == uuid }
            uuids.append(uuid)
            return earlier < failuresPerNotification ? .unsuccessfulResponse : .success
        }
    }

    private static func store(
        _ target: Target, _ environment: Subscriptions.Environment = .production,
        change: (inout NotificationSending) -> Void = { _ in }
    ) throws -> SimulatedStore {
        var sending = NotificationSending { await target.answer($0) }
        change(&sending)
        var settings = SimulatedServerAPI.Settings()
        settings.sending = sending
        let simulation = try ServerAPIBundle.makeSimulation([.monthlyCommitment], count: 1, environment)
        return SimulatedStore(simulation, now: Instant(iso8601: "2024-12-31T00:00:00Z"), api: settings)
    }

    @Test("a notification is sent once the clock is past its signing, in the order of signing, and once")
    func order() async throws {
        let target = Target(failuresPerNotification: 0)
        let store = try Self.store(target) { $0.connections = 1 }
        await store.setClock(Instant(iso8601: "2024-12-31T00:00:00Z")!)
        let before = await target.uuids

        await store.setClock(Simulation.end)
        await store.setClock(Simulation.end)

        let sent = await target.uuids
        #expect(before.isEmpty && sent.count > 12 && sent == store.notifications.map(\.notificationUUID))
        for notification in store.notifications {
            #expect(notification.attempts.map(\.result) == [.success])
            #expect(notification.attempts.map(\.at) == [notification.signedDate.advanced(byMilliseconds: 1500)])
        }
    }

    @Test(
        "a failed attempt is followed after 1, 12, 24, 48 and 72 hours, then no more",
        arguments: [(0, 1), (2, 3), (5, 6), (9, 6)])
    func retries(failures: Int, attempts: Int) async throws {
        let target = Target(failuresPerNotification: failures)
        let store = try Self.store(target)
        await store.setClock(Simulation.end)

        let notification = try #require(store.notifications.first)

        let first = notification.signedDate.advanced(byMilliseconds: 1500)
        let plan = [0, 1, 13, 37, 85, 157].map { first.advanced(byMilliseconds: $0 * Self.hourMilliseconds) }
        #expect(notification.attempts.map(\.at) == Array(plan.prefix(attempts)))
        let expected = (0..<attempts).map { $0 < failures ? SendAttempt.Result.unsuccessfulResponse : .success }
        #expect(notification.attempts.map(\.result) == expected)
    }

    @Test("an attempt is made when the clock reaches it, not before")
    func clock() async throws {
        let target = Target(failuresPerNotification: 1)
        let store = try Self.store(target)
        let simulation = try ServerAPIBundle.makeSimulation([.monthlyCommitment], count: 1)
        let signed = try #require(MadeNotifications(simulation).first).signedDate
        let first = signed.advanced(byMilliseconds: 1500)
        var counts: [Int] = []
        for instant in [
            first.advanced(byMilliseconds: -1), first, first.advanced(byMilliseconds: Self.hourMilliseconds - 1),
            first.advanced(byMilliseconds: Self.hourMilliseconds),
        ] {
            await store.setClock(instant)
            counts.append(await target.uuids.count)
        }

        #expect(counts == [0, 1, 1, 2])
    }

    @Test("the sandbox tries once")
    func sandbox() async throws {
        let store = try Self.store(Target(failuresPerNotification: 9), .sandbox)
        await store.setClock(Simulation.end)

        #expect(!store.notifications.isEmpty)
        #expect(store.notifications.allSatisfy { $0.attempts.map(\.result) == [.unsuccessfulResponse] })
    }

    @Test("a lost notification is never posted, and each of its attempts fails; the same ones are lost each time")
    func lost() async throws {
        let target = Target(failuresPerNotification: 0)
        let store = try Self.store(target) { $0.lose = 0.5 }
        let again = try Self.store(Target(failuresPerNotification: 0)) { $0.lose = 0.5 }
        await store.setClock(Simulation.end)
        await again.setClock(Simulation.end)

        let delivered = store.notifications.filter { $0.attempts.contains { $0.result == .success } }
        let posted = await target.uuids
        #expect(Set(posted) == Set(delivered.map(\.notificationUUID)) && posted.count == delivered.count)
        #expect(!posted.isEmpty && posted.count < store.notifications.count)
        #expect(store.notifications == again.notifications)
    }

    @Test("a delayed notification arrives with its second, third or fourth attempt")
    func delayed() async throws {
        let store = try Self.store(Target(failuresPerNotification: 0)) { $0.delay = 1 }
        await store.setClock(Simulation.end)

        // The last ones may still wait for an attempt.
        let early = store.notifications.filter {
            $0.signedDate.advanced(byMilliseconds: 200 * Self.hourMilliseconds) < Simulation.end
        }
        #expect(!early.isEmpty)
        for notification in early {
            #expect((2...4).contains(notification.attempts.count))
            #expect(notification.attempts.last?.result == .success)
            #expect(notification.attempts.dropLast().allSatisfy { $0.result != .success })
        }
    }

    @Test("a server's answer decides the result of an attempt")
    func target() async throws {
        try await ServerAPIBundle.with { bundle in
            let address = "http://127.0.0.1:\(bundle.client.port)"

            #expect(await NotificationTarget(url: "\(address)/sandbox/verifyReceipt").post([]) == .success)
            #expect(await NotificationTarget(url: "\(address)/nowhere").post([]) == .unsuccessfulResponse)
        }
    }
}

// MARK: - The API

extension NotificationSenderTests {
    @Test("the history has the attempts, and only undelivered notifications with onlyFailures")
    func attempts() async throws {
        var settings = SimulatedServerAPI.Settings()
        var sending = NotificationSending { _ in .success }
        sending.lose = 0.5
        settings.sending = sending
        try await ServerAPIBundle.with([.monthlyCommitment], settings) { bundle in
            await bundle.store.setClock(Instant(iso8601: "2025-12-31T00:00:00Z")!)
            let end = bundle.store.now.milliseconds
            let days = "\"startDate\":\(end - 179 * 86_400_000),\"endDate\":\(end)"
            let made = bundle.store.notifications.filter { $0.signedDate.milliseconds >= end - 179 * 86_400_000 }
            func items(_ body: String) async throws -> [[String: Any]] {
                let answer = try await bundle.call("POST", "v1/notifications/history", body)
                return try #require(answer.json["notificationHistory"] as? [[String: Any]])
            }

            let all = try await items("{\(days)}")
            let failures = try await items("{\(days),\"onlyFailures\":true}")

            #expect(!made.isEmpty && made.count <= 20 && all.count == made.count)
            for (item, notification) in zip(all, made) {
                let attempts = try #require(item["sendAttempts"] as? [[String: Any]])
                #expect(attempts.map { $0.milliseconds("attemptDate") } == notification.attempts.map(\.at.milliseconds))
                let results = attempts.map { $0["sendAttemptResult"] as? String }
                #expect(results == notification.attempts.map(\.result.rawValue))
            }
            let undelivered = made.filter { !$0.attempts.contains { $0.result == .success } }
            #expect(failures.count == undelivered.count)
        }
    }

    @Test("a test notification is posted, and its status has the attempt")
    func test() async throws {
        let sent = SentBodies()
        var settings = SimulatedServerAPI.Settings()
        settings.sending = NotificationSending { await sent.add($0) }
        try await ServerAPIBundle.with([.renewals], settings) { bundle in
            bundle.store.now = try #require(Instant(iso8601: "2024-12-31T00:00:00Z"))
            let asked = try await bundle.call("POST", "v1/notifications/test")
            let token = try #require(asked.json["testNotificationToken"] as? String)
            await bundle.store.sendNotifications()

            let status = try await bundle.call("GET", "v1/notifications/test/\(token)")

            let payload = try status.payload("signedPayload")
            #expect(payload["notificationType"] as? String == "TEST")
            let attempts = try #require(status.json["sendAttempts"] as? [[String: Any]])
            #expect(attempts.map { $0["sendAttemptResult"] as? String } == ["SUCCESS"])
            #expect(await sent.bodies.count == 1)
        }
    }

    @Test("no test without a notification URL, and no status of an unknown or malformed token")
    func testErrors() async throws {
        try await ServerAPIBundle.with { bundle async throws in
            let unknown = "v1/notifications/test/ce3af791-365e-4c60-841b-1674b43c1609_1656711440000"

            #expect(try await bundle.errorCode("POST", "v1/notifications/test") == 4_040_007)
            #expect(try await bundle.errorCode("GET", unknown) == 4_040_008)
            #expect(try await bundle.errorCode("GET", "v1/notifications/test/latest") == 4_000_020)
        }
    }

    @Test("GET /notifications lists what the store made, and setting the clock over HTTP sends it")
    func overHTTP() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.sending = NotificationSending { _ in .success }
        try await ServerAPIBundle.with([.renewals], settings) { bundle in
            let set = try await bundle.client.put("{\"now\":\"2026-06-30T00:00:00Z\"}", to: "/clock")
            let listed = try await bundle.client.get("/notifications")

            let notifications = try #require(listed.json["notifications"] as? [[String: Any]])
            #expect(set.status == 200 && notifications.count == bundle.store.notifications.count)
            let first = try #require(notifications.first)
            #expect(first["notificationType"] as? String == "SUBSCRIBED")
            #expect((first["sendAttempts"] as? [[String: Any]])?.count == 1)
        }
    }
}
