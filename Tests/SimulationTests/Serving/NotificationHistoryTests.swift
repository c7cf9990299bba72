import Encoding
import Foundation
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The simulated Server API has a history of the notifications that the store has made")
struct NotificationHistoryTests {
    private static let path = "v1/notifications/history"
    private static let dayMilliseconds: Int64 = 86_400_000

    /// The body of a request about the days before the store's time.
    private static func body(_ bundle: ServerAPIBundle, days: Int64 = 179, _ others: String = "") -> String {
        let end = bundle.store.now.milliseconds
        return "{\"startDate\":\(end - days * dayMilliseconds),\"endDate\":\(end)\(others)}"
    }

    private static func items(_ answer: HTTPAnswer) throws -> [[String: Any]] {
        try #require(answer.json["notificationHistory"] as? [[String: Any]])
    }

    private static func uuids(_ answer: HTTPAnswer) throws -> [String] {
        try items(answer).map {
            let payload = try signedPayload(#require($0["signedPayload"] as? String))
            return try #require(payload["notificationUUID"] as? String)
        }
    }

    /// Reads the history to its end.
    private static func walk(_ bundle: ServerAPIBundle, _ body: String) async throws -> [[String]] {
        var pages: [[String]] = []
        var token: String?
        while true {
            let query = token.map { "?paginationToken=\($0)" } ?? ""
            let answer = try await bundle.call("POST", path + query, body)
            pages.append(try uuids(answer))
            token = answer.json["paginationToken"] as? String
            guard answer.json["hasMore"] as? Bool == true else {
                #expect(token == nil)
                return pages
            }
        }
    }

    /// The notifications that were signed in the days before the store's time.
    private static func made(_ bundle: ServerAPIBundle, days: Int64 = 179) -> [SimulatedNotification] {
        let start = bundle.store.now.advanced(byMilliseconds: -days * dayMilliseconds)
        return bundle.store.notifications.filter { $0.signedDate >= start }
    }

    @Test("the history has every notification of the window once, in pages of 20")
    func pages() async throws {
        try await ServerAPIBundle.with(Story.allCases, count: 40) { bundle in
            bundle.store.now = try #require(Instant(iso8601: "2025-12-31T00:00:00Z"))
            let made = Self.made(bundle).map(\.notificationUUID)

            let pages = try await Self.walk(bundle, Self.body(bundle))

            #expect(made.count > 40 && pages.flatMap(\.self) == made)
            #expect(pages.dropLast().allSatisfy { $0.count == 20 })
        }
    }

    @Test("the window includes its start, excludes its end, and ends now at the latest")
    func window() async throws {
        try await ServerAPIBundle.with([.monthlyCommitment]) { bundle async throws in
            let all = bundle.store.notifications
            let signed = all[5].signedDate.milliseconds
            bundle.store.now = all[5].signedDate
            func uuids(_ start: Int64, _ end: Int64) async throws -> [String] {
                let body = "{\"startDate\":\(start),\"endDate\":\(end)}"
                return try await Self.uuids(bundle.call("POST", Self.path, body))
            }

            #expect(try await uuids(signed, signed + Self.dayMilliseconds * 300) == [all[5].notificationUUID])
            #expect(try await uuids(signed - 1000, signed).isEmpty)
        }
    }

    @Test("each defect of a body has its own error code")
    func defects() async throws {
        try await ServerAPIBundle.with { bundle async throws in
            let end = bundle.store.now.milliseconds
            let border = end - 180 * Self.dayMilliseconds
            func code(_ body: String) async throws -> Int? { try await bundle.errorCode("POST", Self.path, body) }
            func filtered(_ others: String) async throws -> Int? { try await code(Self.body(bundle, "," + others)) }

            #expect(try await code("[]") == 4_000_000)
            #expect(try await code("{\"endDate\":\(end)}") == 4_000_015)
            #expect(try await code("{\"startDate\":\"\(border)\",\"endDate\":\(end)}") == 4_000_015)
            #expect(try await code("{\"startDate\":\(end)}") == 4_000_016)
            #expect(try await code("{\"startDate\":\(end),\"endDate\":\(end)}") == 4_000_013)
            #expect(try await code("{\"startDate\":\(border),\"endDate\":\(end)}") == 4_000_012)
            #expect(try await code("{\"startDate\":\(border + 1),\"endDate\":\(end)}") == nil)
            #expect(try await filtered("\"notificationType\":\"RENEWED\"") == 4_000_018)
            #expect(try await filtered("\"notificationSubtype\":\"VOLUNTARY\"") == 4_000_018)
            let pair = "\"notificationType\":\"REFUND\",\"notificationSubtype\":\"VOLUNTARY\""
            #expect(try await filtered(pair) == 4_000_018)
            let both = "\"notificationType\":\"REFUND\",\"transactionId\":\"\(bundle.originalTransactionId)\""
            #expect(try await filtered(both) == 4_000_019)
            #expect(try await filtered("\"transactionId\":\"abc\"") == 4_000_006)
            #expect(try await filtered("\"transactionId\":\"\(bundle.account.appTransactionId)\"") == 4_000_006)
            #expect(try await filtered("\"transactionId\":\"2000010000009999\"") == 4_040_010)
        }
    }

    @Test("the sandbox keeps thirty days")
    func sandbox() async throws {
        try await ServerAPIBundle.with(environment: .sandbox) { bundle in
            let inside = try await bundle.errorCode("POST", Self.path, Self.body(bundle, days: 29))
            let border = try await bundle.errorCode("POST", Self.path, Self.body(bundle, days: 30))

            #expect(inside == nil && border == 4_000_012)
        }
    }

    @Test("the history of one customer and of one type")
    func filters() async throws {
        try await ServerAPIBundle.with([.monthlyCommitment], count: 2) { bundle in
            bundle.store.now = try #require(bundle.subscription.history.last).at.advanced(byMilliseconds: 600_000)
            let made = Self.made(bundle)
            let own = Set(bundle.subscription.notifications.map(\.notificationUUID))
            let customer = ",\"transactionId\":\"\(bundle.originalTransactionId)\""
            let renewals = ",\"notificationType\":\"DID_RENEW\""

            let ofCustomer = try await Self.walk(bundle, Self.body(bundle, customer)).flatMap(\.self)
            let ofType = try await Self.walk(bundle, Self.body(bundle, renewals)).flatMap(\.self)

            #expect(ofCustomer == made.map(\.notificationUUID).filter { own.contains($0) } && !ofCustomer.isEmpty)
            #expect(ofType == made.filter { $0.type == "DID_RENEW" }.map(\.notificationUUID) && !ofType.isEmpty)
        }
    }

    @Test("a token belongs to the bytes of a body, and expires")
    func tokens() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.pageItems = 2
        settings.paginationTokenLife = .seconds(60)
        try await ServerAPIBundle.with([.monthlyCommitment], settings) { bundle in
            bundle.store.now = try #require(bundle.subscription.history.last).at
            let body = Self.body(bundle)
            let first = try await bundle.call("POST", Self.path, body)
            let token = try #require(first.json["paginationToken"] as? String)
            let next = "\(Self.path)?paginationToken=\(token)"
            func code(_ path: String, _ body: String) async throws -> Int? {
                try await bundle.errorCode("POST", path, body)
            }

            #expect(try await code(next, body) == nil)
            #expect(try await code(next, body + " ") == 4_000_014)
            #expect(try await code("\(Self.path)?paginationToken=next", body) == 4_000_014)
            bundle.store.now = bundle.store.now.advanced(byMilliseconds: 60_000)
            #expect(try await code(next, body) == nil)
            bundle.store.now = bundle.store.now.advanced(byMilliseconds: 1)
            #expect(try await code(next, body) == 4_000_017)
        }
    }

    @Test("the history repeats the bytes that were sent, or signs them again", arguments: [false, true])
    func bytes(isSignedAnew: Bool) async throws {
        let sent = SentBodies()
        var settings = SimulatedServerAPI.Settings()
        settings.signsHistoryAnew = isSignedAnew
        settings.sending = NotificationSending { await sent.add($0) }
        try await ServerAPIBundle.with([.monthlyCommitment], settings) { bundle in
            let end = try #require(bundle.subscription.history.last).at.advanced(byMilliseconds: 600_000)
            await bundle.store.setClock(end)
            let answer = try await bundle.call("POST", Self.path, Self.body(bundle))

            let payloads = try Self.items(answer).map { try #require($0["signedPayload"] as? String) }
            let bodies = await sent.bodies
            let posted = payloads.filter { bodies.contains("{\"signedPayload\":\"\($0)\"}") }
            #expect(!payloads.isEmpty && posted.count == (isSignedAnew ? 0 : payloads.count))
        }
    }
}

/// Accepts notifications, and keeps them.
actor SentBodies {
    private(set) var bodies: [String] = []

    func add(_ body: [UInt8]) -> SendAttempt.Result {
        bodies.append(String(decoding: body, as: UTF8.self))
        return .success
    }
}
