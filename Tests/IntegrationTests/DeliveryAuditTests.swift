import AppStore
import Encoding
import EventLog
import Simulation
import StoreClient
import Subscriptions
import TestSupport
import Testing

@Suite("The notifications that Apple made are compared with the log")
struct DeliveryAuditTests {
    private static let figures = """
        select concat_ws(' ', app, environment, day, made, delivered, arrived, fetched, refused, lost, answered_late,
          only_in_log, attempts, results, sent_max_seconds, retried_max_seconds, is_final)
        from analyst.apple_deliveries
        order by 1
        """ as StaticString

    private static let sources = """
        select source
        from subledger.event
        order by position
        """ as StaticString

    /// The next day, an hour after midnight.
    private static let nextDay = DeliveryBundle.day.end.advanced(by: .seconds(3600))

    @Test("what did not arrive is fetched once, and counted in every later audit")
    func fetched() async throws {
        try await DeliveryBundle.with { bundle in
            bundle.decide(.posted, .lost(.timedOut), .lost(.noResponse))
            for _ in 0..<3 { try await bundle.makeNotification() }
            // Of the second and third one, the next attempts come an hour later; one of them succeeds.
            bundle.decide(.posted, .lost(.tlsIssue))
            await bundle.pass(to: DeliveryBundle.noon.advanced(by: .seconds(3600)))
            bundle.decide(.lost(.other))
            await bundle.pass(to: Self.nextDay)

            let first = try await bundle.audit()
            let figures = try await bundle.server.sql(Self.figures)
            let second = try await bundle.audit()
            let again = try await bundle.server.sql(Self.figures)

            guard case .audited(let audit) = first, case .audited(let repeated) = second else {
                Issue.record("\(first), \(second)")
                return
            }
            #expect(audit.count == repeated.count && audit.onlyInLog == 0)
            #expect(figures.count == 1 && figures == again)
            #expect(
                figures[0].hasPrefix("com.example.app production 2024-12-10 3 2 2 1 0 0 0 0 6 "), "\(figures)")
            #expect(
                figures[0].contains(
                    #"{"OTHER": 1, "SUCCESS": 2, "TIMED_OUT": 1, "TLS_ISSUE": 1, "NO_RESPONSE": 1} 0 3600 f"#),
                "\(figures)")
            #expect(try await bundle.server.sql(Self.sources) == ["apple-v2", "apple-v2", "apple-history"])
            // It arrives after all: a repeat of the event that was fetched.
            await bundle.pass(to: DeliveryBundle.day.end.advanced(by: .seconds(8 * 86_400)))
            guard case .audited(let last) = try await bundle.audit() else { return }
            #expect(last.count.delivered == 3 && last.count.fetched == 1 && last.count.lost == 0)
            #expect(try await bundle.server.sql(Self.sources).count == 3)
            #expect(try await bundle.server.sql(Self.figures)[0].hasSuffix(" t"))
            #expect(
                bundle.store.notifications.filter { DeliveryBundle.day == AuditDay(containing: $0.signedDate) }
                    .flatMap(\.attempts).count == Int(last.count.attempts))
        }
    }

    @Test("a notification that was acknowledged and is missing is an error")
    func lost() async throws {
        try await DeliveryBundle.with { bundle in
            bundle.decide(.posted, .lost(.success))
            for _ in 0..<2 { try await bundle.makeNotification() }
            await bundle.pass(to: Self.nextDay)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.fetched == 1 && audit.count.lost == 1 && audit.count.delivered == 2)
            #expect(audit.count.before == 0)
            let logs = bundle.server.logs.text
            #expect(logs.contains("error deliveries audited"), "\(logs)")
            #expect(logs.contains("error notification lost: Apple delivered it, and it was not in the log"), "\(logs)")
            #expect(logs.contains(#""event.position": 2"#), "\(logs)")
            #expect(try await bundle.server.sql(Self.sources) == ["apple-v2", "apple-history"])
        }
    }

    @Test("what was delivered to another URL before the first notification arrived is fetched, and is not lost")
    func before() async throws {
        try await DeliveryBundle.with { bundle in
            bundle.decide(.lost(.success))
            try await bundle.makeNotification()
            await bundle.pass(to: DeliveryBundle.noon.advanced(by: .seconds(60)))
            bundle.decide(.posted)
            try await bundle.makeNotification()
            await bundle.pass(to: Self.nextDay)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.fetched == 1 && audit.count.lost == 0 && audit.count.before == 1)
            #expect(!bundle.server.logs.text.contains("error "), "\(bundle.server.logs.text)")
            #expect(try await bundle.server.sql("select before::text from analyst.apple_deliveries") == ["1"])
        }
    }

    @Test("since when an installation listens is the operator's word, if there is one", arguments: [true, false])
    func listeningSince(_ isLater: Bool) async throws {
        let since = DeliveryBundle.noon.advanced(by: .seconds(isLater ? 30 : -30))
        try await DeliveryBundle.with(app: try DeliveryBundle.app(listeningSince: since)) { bundle in
            bundle.decide(.lost(.success), .posted)
            try await bundle.makeNotification()
            await bundle.pass(to: DeliveryBundle.noon.advanced(by: .seconds(60)))
            try await bundle.makeNotification()
            await bundle.pass(to: Self.nextDay)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.fetched == 1)
            #expect(audit.count.before == (isLater ? 1 : 0))
            #expect(audit.count.lost == (isLater ? 0 : 1))
            #expect(bundle.server.logs.text.contains("error notification lost") == !isLater)
        }
    }

    @Test("an answer that Apple did not get is counted, and what is stored twice is not")
    func answeredLate() async throws {
        try await DeliveryBundle.with { bundle in
            bundle.decide(.postedAnd(.prematureClose))
            try await bundle.makeNotification()
            await bundle.pass(to: Self.nextDay)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.made == 1 && audit.count.arrived == 1 && audit.count.answeredLate == 1)
            #expect(try await bundle.server.sql(Self.sources) == ["apple-v2"])
        }
    }

    @Test("a history that is signed anew is the same notifications")
    func signedAnew() async throws {
        try await DeliveryBundle.with({ $0.signsHistoryAnew = true }) { bundle in
            try await bundle.makeNotification()
            await bundle.pass(to: Self.nextDay)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.arrived == 1 && audit.count.fetched == 0)
            #expect(try await bundle.server.sql("select count(*)::text from subledger.event_conflict") == ["0"])
        }
    }

    @Test("an event that Apple's history does not have is counted")
    func onlyInLog() async throws {
        try await DeliveryBundle.with { bundle in
            try await bundle.makeNotification()
            let app = SimulatedApp(
                bundleId: DeliveryBundle.bundleId, appAppleId: 1_400_000_001, environment: .production)
            let body = V2Notification(
                "TEST", notificationUUID: "5a3c0f10-0d1e-4a6b-9c57-3b7d1f0a2e44", signedDate: DeliveryBundle.noon,
                content: .data(V2Data(app: app))
            ).body(JWSSigner(.standard))
            #expect(try await bundle.server.apple.post(body).status == 200)
            await bundle.pass(to: Self.nextDay)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.made == 1 && audit.count.arrived == 1 && audit.onlyInLog == 1)
        }
    }

    @Test("what is not verified is counted and not stored")
    func refused() async throws {
        try await DeliveryBundle.with(roots: .apple) { bundle in
            try await bundle.makeNotification()
            await bundle.pass(to: Self.nextDay)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.made == 1 && audit.count.refused == 1 && audit.count.results.keys.count == 1)
            #expect(audit.count.results["UNSUCCESSFUL_HTTP_RESPONSE_CODE"] ?? 0 > 0)
            #expect(try await bundle.server.sql(Self.sources).isEmpty)
        }
    }

    @Test(
        "repeated items, empty pages and tokens that expire change no figure",
        arguments: [
            StoreAPIFault.repeatedItem, .emptyPage, .expiredPaginationToken, .overloaded, .cutOff, .dropped,
            .error(5_000_001),
        ])
    func faults(_ fault: StoreAPIFault) async throws {
        try await DeliveryBundle.with({ $0.pageItems = 2 }) { bundle in
            bundle.decide(.posted, .lost(.noResponse))
            for _ in 0..<5 { try await bundle.makeNotification() }
            await bundle.pass(to: Self.nextDay)
            bundle.store.api.inject(fault, requests: 3)

            guard case .audited(let audit) = try await bundle.audit() else {
                Issue.record("not audited")
                return
            }
            #expect(audit.count.made == 5 && audit.count.arrived + audit.count.fetched == 5)
        }
    }

    @Test("without an answer nothing is recorded, and a key that is rejected is told")
    func failures() async throws {
        try await DeliveryBundle.with { bundle in
            try await bundle.makeNotification()
            await bundle.pass(to: Self.nextDay)
            bundle.store.api.inject(.overloaded, requests: 100)
            guard case .unavailable = try await bundle.audit() else {
                Issue.record("audited")
                return
            }
            #expect(try await bundle.server.sql(Self.figures).isEmpty)
        }
        try await DeliveryBundle.with({ $0.isReleased = false }) { bundle in
            await bundle.pass(to: Self.nextDay)
            let outcome = try await bundle.audit()
            #expect(outcome == .keyRejected)
        }
    }

    @Test("yesterday is audited an hour after midnight, by one process, and again after the last attempt")
    func rounds() async throws {
        try await DeliveryBundle.with { bundle in
            let audits = DeliveryAudits(
                auditor: bundle.auditor, deliveries: bundle.deliveries, leadership: bundle.leadership,
                apps: [bundle.app], clock: bundle.storeClock, logger: bundle.server.logs.logger)
            let other = StreamLeadership(Elector(bundle.server.database.with(role: "subledger_poller")), for: .audits)
            let second = DeliveryAudits(
                auditor: bundle.auditor, deliveries: bundle.deliveries, leadership: other, apps: [bundle.app],
                clock: bundle.storeClock, logger: bundle.server.logs.logger)
            func days(_ audits: [DeliveryAudit]) -> [String] {
                audits.filter { $0.stream == DeliveryBundle.stream }.map(\.day.text)
            }
            try await bundle.makeNotification()

            let early = try await audits.round(at: bundle.clock.now)
            await bundle.pass(to: Self.nextDay)
            let due = try await audits.round(at: bundle.clock.now)
            let again = try await audits.round(at: bundle.clock.now)
            let ofOther = try await second.round(at: bundle.clock.now)
            await bundle.leadership.release()
            await bundle.pass(to: Self.nextDay.advanced(by: .seconds(8 * 86_400)))
            let later = try await second.round(at: bundle.clock.now)
            await other.release()

            #expect(days(early) == ["2024-12-09"])
            #expect(days(due) == ["2024-12-10"])
            #expect(days(again).isEmpty && ofOther.isEmpty)
            #expect(days(later) == ["2024-12-09"] + (10...18).map { "2024-12-\($0)" })
        }
    }

    @Test("days without an answer are logged once, and remain due")
    func unansweredDay() async throws {
        try await DeliveryBundle.with { bundle in
            let audits = DeliveryAudits(
                auditor: bundle.auditor, deliveries: bundle.deliveries, leadership: bundle.leadership,
                apps: [bundle.app], clock: bundle.storeClock, logger: bundle.server.logs.logger)
            func round() async throws -> [String] {
                try await audits.round(at: bundle.clock.now).filter { $0.stream == DeliveryBundle.stream }
                    .map(\.day.text)
            }
            try await bundle.makeNotification()
            _ = try await round()
            await bundle.pass(to: Self.nextDay.advanced(by: .seconds(2 * 86_400)))
            try await bundle.makeNotification()
            // More than the retries of a day, so that the breaker opens.
            bundle.store.api.inject(.overloaded, requests: 16)
            func lines() -> Int {
                bundle.server.logs.text.components(separatedBy: "deliveries of a day not audited yet").count - 1
            }

            let due = try await round()
            let logged = lines()
            let again = try await round()
            let loggedAgain = lines()

            #expect(due.isEmpty && again.isEmpty)
            // Three days of production and of the sandbox.
            #expect(logged == 6 && loggedAgain == 6, "\(logged) \(loggedAgain)")
        }
    }

    @Test("a day that Apple refuses is asked about again an hour later, and does not hold up the days after it")
    func refusedDay() async throws {
        try await DeliveryBundle.with { bundle in
            let audits = DeliveryAudits(
                auditor: bundle.auditor, deliveries: bundle.deliveries, leadership: bundle.leadership,
                apps: [bundle.app], clock: bundle.storeClock, logger: bundle.server.logs.logger)
            func round() async throws -> [String] {
                try await audits.round(at: bundle.clock.now).filter { $0.stream == DeliveryBundle.stream }
                    .map(\.day.text)
            }
            try await bundle.makeNotification()
            let first = try await round()
            await bundle.pass(to: Self.nextDay.advanced(by: .seconds(2 * 86_400)))
            // The old token is rejected now, which would use up the error.
            try await bundle.makeNotification()
            bundle.store.api.inject(.error(4_000_018))

            let due = try await round()
            let again = try await round()
            await bundle.pass(to: bundle.clock.now.advanced(by: .seconds(3600)))
            let later = try await round()

            #expect(first == ["2024-12-09"])
            #expect(due == ["2024-12-11", "2024-12-12"])
            #expect(again.isEmpty)
            #expect(later == ["2024-12-10"])
        }
    }
}
