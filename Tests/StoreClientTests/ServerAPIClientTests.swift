import AppStore
import Simulation
import TestSupport
import Testing

@testable import StoreClient

/// The rules of retries, tokens and hosts of the App Store Server API.
@Suite("The App Store Server API is asked within its rules")
struct ServerAPIClientTests {
    @Test("statuses, history and a single transaction are answered with signed texts")
    func answers() async throws {
        let bundle = try ServerAPIBundle()

        let statuses = await bundle.statuses()
        let history = await bundle.client.ask(
            TransactionHistoryRequest(id: bundle.id, revision: nil), app: bundle.app, host: .production)
        let transaction = await bundle.client.ask(
            TransactionInfoRequest(id: bundle.id), app: bundle.app, host: .production)

        guard case .answered(let lines) = statuses, case .answered(let page) = history,
            case .answered(let signed) = transaction
        else {
            Issue.record("\(statuses.text), \(history.text), \(transaction.text)")
            return
        }
        #expect(lines.count == 1 && lines.allSatisfy { $0.signedRenewal != nil })
        #expect(!page.signedTransactions.isEmpty && !page.hasMore && !page.revision.isEmpty)
        for text in lines.map(\.signedTransaction) + page.signedTransactions + [signed] {
            _ = try SignedStatement(transaction: text[...], source: .appleAPI)
        }
        #expect(bundle.transport.requests.allSatisfy { $0.method == "GET" && $0.body == nil })
        #expect(Set(bundle.transport.requests.map(\.token)).count == 1)
    }

    @Test("a revision leads to what has changed since, and to nothing at once")
    func revision() async throws {
        let bundle = try ServerAPIBundle()
        let first = await bundle.client.ask(
            TransactionHistoryRequest(id: bundle.id, revision: nil), app: bundle.app, host: .production)
        guard case .answered(let page) = first else {
            Issue.record("\(first.text)")
            return
        }

        let again = await bundle.client.ask(
            TransactionHistoryRequest(id: bundle.id, revision: page.revision), app: bundle.app, host: .production)
        let lost = await bundle.client.ask(
            TransactionHistoryRequest(id: bundle.id, revision: "no-such"), app: bundle.app, host: .production)

        guard case .answered(let rest) = again else {
            Issue.record("\(again.text)")
            return
        }
        #expect(rest.signedTransactions.isEmpty && !rest.hasMore)
        #expect(lost.text == "refused 4000005")
        if case .refused(let refusal) = lost { #expect(refusal.kind == .pageLost) }
    }

    @Test("an id of the sandbox is found there after production does not know it")
    func sandbox() async throws {
        let bundle = try ServerAPIBundle(.sandbox)

        let (host, outcome) = await bundle.client.find(
            TransactionInfoRequest(id: bundle.id), app: bundle.app, priority: .handIn)
        let (otherHost, unknown) = await bundle.client.find(
            TransactionInfoRequest(id: "2000000999999999"), app: bundle.app, priority: .handIn)

        #expect(host == .sandbox && outcome.text == "answered")
        #expect(otherHost == .sandbox && unknown.text == "refused 4040010")
    }

    @Test(
        "nothing but an unknown transaction leads to the sandbox",
        arguments: [StoreAPIFault.error(4_000_006), .error(4_040_001), .unauthorized(hasText: true), .overloaded])
    func noFallback(fault: StoreAPIFault) async throws {
        let bundle = try ServerAPIBundle()
        bundle.store.api.inject(fault, requests: 10)

        let (host, outcome) = await bundle.client.find(
            TransactionInfoRequest(id: bundle.id), app: bundle.app, priority: .handIn)

        #expect(host == .production && outcome.text != "answered")
        #expect(bundle.transport.requests.allSatisfy { $0.url.hasPrefix("https://api.storekit.apple.com/") })
    }

    // MARK: Errors

    @Test(
        "temporary failures are repeated",
        arguments: [
            StoreAPIFault.error(4_040_002), .error(4_040_004), .error(4_040_006), .error(5_000_000), .error(5_000_001),
            .error(9_990_000), .errorWithCharset(5_000_001), .dropped, .overloaded, .errorPage, .slow, .cutOff,
        ])
    func temporary(fault: StoreAPIFault) async throws {
        let bundle = try ServerAPIBundle()
        bundle.store.api.inject(fault, requests: 2)

        let outcome = await bundle.statuses()

        #expect(outcome.text == "answered")
        #expect(bundle.transport.requests.count == 3)
    }

    @Test("a failure that stays ends the question for now")
    func stays() async throws {
        let bundle = try ServerAPIBundle()
        bundle.store.api.inject(.error(5_000_001), requests: 100)

        #expect(await bundle.statuses().text == "unavailable temporary_status, 30.0 seconds")
        #expect(bundle.transport.requests.count == 1 + Limits.retriesMax)
    }

    @Test(
        "other errors end the question at once",
        arguments: [
            4_000_000, 4_000_002, 4_000_006, 4_000_008, 4_000_031, 4_000_227, 4_030_004, 4_040_001, 4_040_003,
            4_040_005,
            4_040_007, 4_040_009, 4_040_010,
        ])
    func final(code: Int) async throws {
        let bundle = try ServerAPIBundle()
        bundle.store.api.inject(.errorWithCharset(code))

        #expect(await bundle.statuses().text == "refused \(code)")
        #expect(bundle.transport.requests.count == 1)
    }

    @Test("an answer beyond the size limit is given up")
    func tooLong() async throws {
        let bundle = try ServerAPIBundle()
        bundle.store.api.inject(.padded)

        #expect(await bundle.statuses().text == "unavailable too_long, 3600.0 seconds")
    }

    // MARK: Keys

    @Test("one 401 leads to a new token", arguments: [true, false])
    func unauthorisedOnce(hasText: Bool) async throws {
        let bundle = try ServerAPIBundle()
        _ = await bundle.statuses()
        bundle.clock.advance(by: .seconds(1))
        bundle.store.api.inject(.unauthorized(hasText: hasText))

        #expect(await bundle.statuses().text == "answered")
        let tokens = bundle.transport.requests.map(\.token)
        #expect(tokens.count == 3 && tokens[0] == tokens[1] && tokens[1] != tokens[2])
        #expect(bundle.log.text.isEmpty)
    }

    @Test("a wrong key stops the host for five minutes with one log line, and the other host goes on")
    func wrongKey() async throws {
        let bundle = try ServerAPIBundle(key: ServerAPIBundle.key("WRONG12345"))

        #expect(await bundle.statuses().text == "key rejected")
        #expect(await bundle.statuses().text == "key rejected")
        #expect(bundle.transport.requests.count == 2)
        #expect(await bundle.statuses(.sandbox).text == "key rejected")
        #expect(bundle.transport.requests.count == 4)
        bundle.clock.advance(by: .seconds(301))
        _ = await bundle.statuses()
        #expect(bundle.transport.requests.count == 6)
        #expect(bundle.log.text.split(separator: "\n").count == 1)
    }

    @Test("an app without a release is rejected in production only")
    func unreleased() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.isReleased = false
        let bundle = try ServerAPIBundle(.sandbox, settings)

        #expect(await bundle.statuses().text == "key rejected")
        #expect(await bundle.statuses(.sandbox).text == "answered")
    }

    @Test(
        "a clock that is up to a minute ahead or four minutes behind is accepted; one further off is told like a wrong key",
        arguments: [(59, true), (-239, true), (61, false), (-301, false)])
    func clock(secondsAhead: Int, isAccepted: Bool) async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { ManualClock.date.advanced(by: .seconds(-secondsAhead)) }
        let bundle = try ServerAPIBundle(.production, settings)

        #expect(await bundle.statuses().text == (isAccepted ? "answered" : "key rejected"))
        #expect(bundle.log.text.contains("key rejected by the App Store Server API") != isAccepted)
    }

    @Test("a token is used for four minutes")
    func tokenAge() async throws {
        let bundle = try ServerAPIBundle()
        for _ in 0..<3 {
            _ = await bundle.statuses()
            bundle.clock.advance(by: .seconds(130))
        }

        let tokens = bundle.transport.requests.map(\.token)
        #expect(tokens[0] == tokens[1] && tokens[1] != tokens[2])
        #expect(bundle.count(200) == 3)
    }

    // MARK: Limits

    @Test(
        "too many requests park the endpoint until Apple's time",
        arguments: SimulatedServerAPI.Settings.RetryAfter.allCases)
    func rateLimited(form: SimulatedServerAPI.Settings.RetryAfter) async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.hourlyLimits = [.statuses: 1]
        settings.retryAfter = form
        let bundle = try ServerAPIBundle(.production, settings)
        _ = await bundle.statuses()

        let limited = await bundle.statuses()
        let parked = await bundle.statuses()
        let other = await bundle.client.ask(
            TransactionInfoRequest(id: bundle.id), app: bundle.app, host: .production)

        // The manual clock starts at a full hour.
        let expected = [.past, .missing].contains(form) ? "60.0" : "3600.0"
        #expect(limited.text == "unavailable budget, \(expected) seconds")
        #expect(parked.text.hasPrefix("unavailable budget, "))
        #expect(other.text == "answered")
        #expect(bundle.transport.requests.count == 3)
        bundle.clock.advance(by: .seconds(3601))
        #expect(await bundle.statuses().text == "answered")
    }

    @Test("the questions of a backfill stay within Apple's limits", arguments: ["production", "sandbox"])
    func budget(environment: String) async throws {
        let host: ReceiptHost = environment == "production" ? .production : .sandbox
        let bundle = try ServerAPIBundle(host.environment)
        var answered = 0
        let start = bundle.clock.now
        // In the rhythm of a caller that waits as long as it is told. Nothing is signed for an unknown id.
        let (questions, hours) = TestScale.isFull ? (100_000, 3) : (20_000, 1)
        while answered < questions, bundle.clock.now - start < .seconds(hours * 3600) {
            let request = StatusesRequest(id: "2000000999999999")
            switch await bundle.client.ask(request, app: bundle.app, host: host) {
            case .refused: answered += 1
            case .unavailable(.budget, let wait): bundle.clock.advance(by: wait)
            case let outcome: Issue.record("\(outcome.text)")
            }
        }

        #expect(bundle.count(429) == 0)
        // At least nine tenths of half of the limit in each hour, or all questions.
        let perHour = host == .production ? 90_000 : 9_000
        #expect(answered >= min(questions, perHour * hours * 9 / 10))
    }
}
