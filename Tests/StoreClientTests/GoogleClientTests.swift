import AppStore
import CryptoExtras
import Encoding
import Foundation
import HTTPServer
import PlayStore
import Synchronization
import TestSupport
import Testing

@testable import StoreClient

@Suite("Questions to the Play Developer API")
struct GoogleClientTests {
    private static let key = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation }
    private static let tokenURL = "https://oauth2.googleapis.com/token"

    /// Google with scripted replies to the API, and access tokens with numbers.
    private struct Bundle {
        let clock = ManualClock(jumps: true)
        let log = LogRecorder()
        let issued = Counter()
        let store: FakeStore
        let client: GoogleClient
        let app: GoogleApp

        init(
            budget: CallBudget = CallBudget(callsPerMinute: 1500, concurrency: 32), callsOfDay: Int = 1000,
            token: FakeStore.Reply? = nil, lifetime: Int = 3599, _ replies: FakeStore.Reply...
        ) throws {
            let script = Replies(replies)
            let issued = issued
            store = FakeStore { request in
                if request.url == GoogleClientTests.tokenURL {
                    let number = issued.next()
                    return token ?? .body(#"{"access_token":"t\#(number)","expires_in":\#(lifetime)}"#)
                }
                return script.next()
            }
            client = GoogleClient(
                transport: store, clock: clock.clock, budget: { _ in budget }, callsOfDayMax: callsOfDay,
                random: { 0 }, metrics: MetricsRegistry(), logger: log.logger)
            let file = try JSONSerialization.data(withJSONObject: [
                "client_email": "a@example.com", "private_key_id": "1",
                "private_key": try GoogleClientTests.key.get(), "token_uri": GoogleClientTests.tokenURL,
            ])
            app = GoogleApp(
                PlayApp(packageName: "com.example.play", pushAuthentication: .none),
                credentials: .serviceAccount(try ServiceAccount(keyFile: Array(file))))
        }

        func ask(isScheduled: Bool = false) async -> GoogleOutcome {
            let token = PurchaseToken("token-1")!
            return await client.ask(
                .subscription(token, of: app.packageName), app: app, isScheduled: isScheduled)
        }

        func ask(aboutOrder orderId: String) async -> GoogleOutcome {
            await client.ask(.order(orderId, of: app.packageName), app: app)
        }

        /// The number of requests to the API.
        var calls: Int { store.requests.count { $0.url != GoogleClientTests.tokenURL } }
    }

    /// Replies in order, the last one for ever.
    private final class Replies: Sendable {
        private let left: Mutex<[FakeStore.Reply]>

        init(_ replies: [FakeStore.Reply]) { left = Mutex(replies) }

        func next() -> FakeStore.Reply { left.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] } }
    }

    private final class Counter: Sendable {
        private let count = Mutex(0)

        var value: Int { count.withLock { $0 } }

        func next() -> Int {
            count.withLock { count in
                count += 1
                return count
            }
        }
    }

    private static func error(_ status: Int, _ reason: String, domain: String = "androidpublisher") -> FakeStore.Reply {
        .body(
            #"{"error":{"code":\#(status),"errors":[{"domain":"\#(domain)","reason":"\#(reason)"}]}}"#,
            httpStatus: status)
    }

    @Test("an access token is fetched once for calls at the same time, and again five minutes before its end")
    func token() async throws {
        let bundle = try Bundle(.body("{}"))

        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { _ = await bundle.ask() } }
        }
        #expect(bundle.issued.value == 1)
        bundle.clock.advance(by: .seconds(3298))
        _ = await bundle.ask()
        #expect(bundle.issued.value == 1)
        bundle.clock.advance(by: .seconds(2))
        _ = await bundle.ask()

        #expect(bundle.issued.value == 2)
        #expect(bundle.calls == 22)
        #expect(bundle.store.requests[0].text.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth"))
    }

    @Test("an account whose grant is refused is not asked for a while, and the reason is logged without the key")
    func refusedGrant() async throws {
        let bundle = try Bundle(
            token: .body(#"{"error":"invalid_grant","error_description":"Not a valid email"}"#, httpStatus: 400),
            .body("{}"))

        #expect(await bundle.ask().text == "credentials rejected")
        #expect(await bundle.ask().text == "credentials rejected")
        #expect(bundle.issued.value == 1)
        #expect(bundle.calls == 0)
        #expect(bundle.log.text.contains("invalid_grant"))
        bundle.clock.advance(by: .seconds(301))
        _ = await bundle.ask()
        #expect(bundle.issued.value == 2)
    }

    @Test("a token endpoint that fails is asked again after ten seconds")
    func tokenAway() async throws {
        let bundle = try Bundle(token: .body("", httpStatus: 503), .body("{}"))

        #expect(await bundle.ask().text == "unavailable temporary_status")
        #expect(await bundle.ask().text == "unavailable temporary_status")
        #expect(bundle.issued.value == 1)
        bundle.clock.advance(by: .seconds(10))
        _ = await bundle.ask()
        #expect(bundle.issued.value == 2)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let status: Int
        let reason: String
        let domain: String
        let outcome: String
        let calls: Int

        init(_ status: Int, _ reason: String, _ domain: String, _ outcome: String, _ calls: Int) {
            (self.status, self.reason, self.domain, self.outcome, self.calls) = (status, reason, domain, outcome, calls)
        }

        var testDescription: String { "\(status) \(reason)" }
    }

    static let errors = [
        Row(400, "invalid", "global", "refused wrong_purchase", 1),
        Row(400, "invalidPurchaseState", "androidpublisher", "refused state_conflict", 1),
        Row(401, "authError", "global", "credentials rejected", 2),
        Row(403, "permissionDenied", "androidpublisher", "forbidden", 1),
        Row(403, "rateLimitExceeded", "usageLimits", "unavailable budget", 1),
        Row(404, "notFound", "global", "refused not_found", 1),
        Row(409, "concurrentUpdate", "androidpublisher", "unavailable temporary_status", 4),
        Row(410, "purchaseTokenNoLongerValid", "androidpublisher", "refused gone", 1),
        Row(429, "quotaExceeded", "usageLimits", "unavailable budget", 1),
        Row(500, "backendError", "global", "unavailable temporary_status", 4),
        Row(503, "backendError", "global", "unavailable temporary_status", 4),
    ]

    @Test("each error has its meaning, by status and reason", arguments: errors)
    func meaning(_ row: Row) async throws {
        let bundle = try Bundle(Self.error(row.status, row.reason, domain: row.domain))

        #expect(await bundle.ask().text == row.outcome)
        #expect(bundle.calls == row.calls)
    }

    @Test("errors without a readable body count by their status, and a lost connection is repeated")
    func bodies() async throws {
        let html = try Bundle(.body("<html>", httpStatus: 502))
        #expect(await html.ask().text == "unavailable temporary_status")
        let empty = try Bundle(.body("", httpStatus: 410))
        #expect(await empty.ask().text == "refused gone")
        let lost = try Bundle(.failure(.timeout), .body("{}"))
        #expect(await lost.ask().text == "answered")
        #expect(lost.store.requests.last?.timeout == .seconds(10))
    }

    @Test("scheduled calls use half of the day's quota, other calls the rest")
    func day() async throws {
        let bundle = try Bundle(callsOfDay: 6, .body("{}"))

        for _ in 0..<3 { #expect(await bundle.ask(isScheduled: true).text == "answered") }
        #expect(await bundle.ask(isScheduled: true).text == "unavailable budget")
        for _ in 0..<3 { #expect(await bundle.ask().text == "answered") }
        #expect(await bundle.ask().text == "unavailable budget")
        // 2026-11-01 begins at UTC; Google's day eight hours later.
        bundle.clock.advance(by: .seconds(8 * 3600))
        #expect(await bundle.ask().text == "answered")
    }

    @Test("orders that Google does not answer about, or forbids, stop no question about a purchase")
    func orders() async throws {
        let failure = Self.error(503, "backendError")
        let down = try Bundle(failure, failure, failure, failure, failure, .body("{}"))
        // With their repetitions, as many failures in a row as stop the calls.
        for order in ["GPA.1", "GPA.2"] { #expect(await down.ask(aboutOrder: order).text.hasPrefix("unavailable")) }
        #expect(await down.ask().text == "answered")
        #expect(await down.ask(aboutOrder: "GPA.3").text == "unavailable breaker_open")
        #expect(down.calls == 6)

        let forbidden = Self.error(403, "permissionDenied")
        let hidden = try Bundle(forbidden, forbidden, .body("{}"))
        for order in ["GPA.1", "GPA.2", "GPA.3"] { #expect(await hidden.ask(aboutOrder: order).text == "forbidden") }
        #expect(await hidden.ask().text == "answered")
        #expect(hidden.calls == 3)
        #expect(hidden.log.text.contains("account may not ask the Play Developer API about the app"))
        #expect(hidden.log.text.contains(#""store.host": orders"#))
    }

    @Test("no more than the budget of a minute is asked in a minute")
    func budget() async throws {
        let bundle = try Bundle(budget: CallBudget(callsPerMinute: 60, concurrency: 4), .body("{}"))
        let start = bundle.clock.now

        for _ in 0..<65 { _ = await bundle.ask() }

        // A burst of five, then one a second.
        #expect(bundle.clock.now - start >= .seconds(60))
    }
}

extension StoreOutcome where Refusal == PlayRefusal {
    /// One line for comparisons.
    fileprivate var text: String {
        switch self {
        case .answered: "answered"
        case .refused(let refusal): "refused \(refusal.kind.rawValue)"
        case .rejected(.credentials): "credentials rejected"
        case .rejected(.permission): "forbidden"
        case .unreadable: "unreadable"
        case .unavailable(let reason, _): "unavailable \(reason)"
        }
    }
}
