import AppStore
import Encoding
import Foundation
import Simulation
import Subscriptions
import Synchronization
import TestSupport
import Testing

/// Three apps on one server, one for each policy. The expectations are the rules, written by hand.
@Suite("Each case of ownership has the owners of the app's policy")
struct OwnershipCasesTests {
    /// What an id leads to on a day: the active products, without the app's prefix.
    struct Expected: Sendable {
        let id: String
        let day: String
        let products: [OwnershipPolicy: String]

        init(_ id: String, _ day: String, _ latest: String, _ first: String, _ shared: String) {
            self.id = id
            self.day = "2025-\(day)"
            products = [.latestBuyer: latest, .firstBuyer: first, .shared: shared]
        }
    }

    /// A customer's link holds for the whole past of what it names, and a purchase from its date on.
    static let expected: [Expected] = [
        Expected("1 A", "02-15", "plus.monthly", "plus.monthly", "plus.monthly"),
        Expected("1 B", "02-15", "", "", "plus.monthly"),
        Expected("1 X", "02-15", "plus.monthly", "plus.monthly", "plus.monthly"),
        Expected("1 A", "04-15", "", "", ""),
        Expected("1 B", "04-15", "", "", ""),
        Expected("1 A", "05-20", "", "plus.monthly", "plus.monthly"),
        Expected("1 B", "05-20", "plus.monthly", "", "plus.monthly"),
        Expected("1 X", "05-20", "plus.monthly", "plus.monthly", "plus.monthly"),
        Expected("2 A", "03-10", "plus.monthly", "plus.monthly", "plus.monthly"),
        Expected("2 B", "03-10", "", "", "plus.monthly"),
        Expected("2 A", "03-20", "", "premium.yearly", "premium.yearly"),
        Expected("2 B", "03-20", "premium.yearly", "", "premium.yearly"),
        Expected("2 X", "03-20", "premium.yearly", "premium.yearly", "premium.yearly"),
        Expected("3 A", "02-15", "plus.yearly", "plus.yearly", "plus.yearly"),
        Expected("3 A", "05-20", "plus.yearly", "plus.yearly", "plus.yearly"),
        Expected("4 A", "05-20", "plus.monthly", "plus.monthly", "plus.monthly"),
        Expected("4 B", "05-20", "audio.monthly", "audio.monthly", "audio.monthly"),
        Expected("4 X", "05-20", "plus.monthly", "plus.monthly", "plus.monthly"),
        Expected("4 Y", "05-20", "audio.monthly", "audio.monthly", "audio.monthly"),
        Expected("5 A", "05-20", "", "", ""),
        Expected("5 member", "05-20", "premium.monthly", "premium.monthly", "premium.monthly"),
        Expected("5 Y", "05-20", "premium.monthly", "premium.monthly", "premium.monthly"),
        Expected("6 u-1", "05-03", "", "plus.monthly", "plus.monthly"),
        Expected("6 u-2", "05-03", "plus.monthly", "", "plus.monthly"),
        Expected("6 u-1", "05-20", "", "plus.monthly", "plus.monthly"),
        Expected("6 u-2", "05-20", "plus.monthly", "", "plus.monthly"),
        Expected("7 u-1", "05-20", "audio.monthly", "audio.monthly plus.monthly", "audio.monthly plus.monthly"),
        Expected("7 u-2", "05-20", "plus.monthly", "", "plus.monthly"),
    ]

    private static let turns = ["customer_changed lost 2025-05-10", "closed 2025-04-01", "opened 2025-01-01"]
    private static let all = ["opened 2025-05-10", "closed 2025-04-01", "opened 2025-01-01"]
    private static let upgraded = ["product_changed 2025-03-15", "opened 2025-03-01"]

    /// The history on May 20 of an id, newest first.
    static let histories: [String: [OwnershipPolicy: [String]]] = [
        "1 A": [.latestBuyer: turns, .firstBuyer: all, .shared: all],
        "1 B": [
            .latestBuyer: ["opened 2025-05-10", "customer_changed gained 2025-05-10"], .firstBuyer: [], .shared: all,
        ],
        "2 A": [
            .latestBuyer: ["customer_changed lost 2025-03-15", "closed 2025-03-15", "opened 2025-03-01"],
            .firstBuyer: upgraded, .shared: upgraded,
        ],
        "2 B": [
            .latestBuyer: ["opened 2025-03-15", "customer_changed gained 2025-03-15"], .firstBuyer: [],
            .shared: upgraded,
        ],
        "6 u-1": [.latestBuyer: [], .firstBuyer: ["opened 2025-05-01"], .shared: ["opened 2025-05-01"]],
        "6 u-2": [.latestBuyer: ["opened 2025-05-01"], .firstBuyer: [], .shared: ["opened 2025-05-01"]],
    ]

    /// What the feed publishes when the second app user appears.
    static let published: [OwnershipPolicy: Set<String>] = [
        .latestBuyer: [
            "1 X lost 1 A", "1 X gained 1 B", "2 X lost 2 A", "2 X gained 2 B", "3 X gained 3 A", "6 X lost 6 u-1",
            "6 X gained 6 u-2", "7 X lost 7 u-1", "7 X gained 7 u-2",
        ],
        .firstBuyer: ["3 X gained 3 A"],
        .shared: ["1 X gained 1 B", "2 X gained 2 B", "3 X gained 3 A", "6 X gained 6 u-2", "7 X gained 7 u-2"],
    ]

    @Test("the second app user takes what the policy gives, and both are told at once")
    func inOrder() async throws {
        try await Self.withApps(at: "2025-05-05") { server, clock in
            var cursors: [OwnershipPolicy: String] = [:]
            for policy in OwnershipPolicy.allCases {
                let cases = OwnershipCases(policy, round: 1)
                for body in cases.before { try await Self.post(body, server) }
                for links in cases.firstLinks { #expect(try await Self.put(links, cases, server) == 200) }
                try await server.isFolded()
                cursors[policy] = try await Self.changes(after: "now", cases, server).cursor
            }
            clock.set("2025-05-20")
            for policy in OwnershipPolicy.allCases {
                let cases = OwnershipCases(policy, round: 1)
                for body in cases.after { try await Self.post(body, server) }
                try await server.isFolded()
                for links in cases.secondLinks() {
                    #expect(try await Self.put(links, cases, server) == (policy == .firstBuyer ? 409 : 200))
                }
                try await server.isFolded()

                let changes = try await Self.changes(after: cursors[policy] ?? "", cases, server)
                #expect(Set(changes.lines) == Self.published[policy], "\(policy)")
                #expect(changes.lines.count == Self.published[policy]?.count)
                cursors[policy] = changes.cursor
                try await Self.checkAnswers(of: cases, policy, server)
                try await Self.checkHistories(of: cases, policy, server)
            }
            try await Self.checkFormerOwner(server)
            try await Self.checkTransfer(after: cursors[.firstBuyer] ?? "", server)
        }
    }

    /// The owner of a link is another one as known before the second customer's link.
    private static func checkFormerOwner(_ server: TestBundle) async throws {
        let cases = OwnershipCases(.latestBuyer, round: 1)
        let known = "&knownAt=2025-05-06T00:00:00Z"

        #expect(try await products("6 u-1", "2025-05-03", cases, server, known) == "plus.monthly")
        #expect(try await products("6 u-2", "2025-05-03", cases, server, known) == "")
        #expect(try await products("7 u-1", "2025-05-03", cases, server, known) == "audio.monthly plus.monthly")
    }

    /// With a transfer, the link that the first buyer's policy refused takes what it names.
    private static func checkTransfer(after cursor: String, _ server: TestBundle) async throws {
        let cases = OwnershipCases(.firstBuyer, round: 1)
        for links in cases.secondLinks(transfer: true) { #expect(try await put(links, cases, server) == 200) }
        try await server.isFolded()

        let linked = expected.filter { $0.id.contains(" u-") }
        #expect(linked.count == 6)
        for expectation in linked {
            let found = try await products(expectation.id, expectation.day, cases, server)
            #expect(found == expectation.products[.latestBuyer], "\(expectation.id) \(expectation.day)")
        }
        let lines = try await changes(after: cursor, cases, server).lines
        #expect(Set(lines) == ["6 X lost 6 u-1", "6 X gained 6 u-2", "7 X lost 7 u-1", "7 X gained 7 u-2"])
    }

    @Test("neither the order of arrival nor repeats change an owner")
    func anyOrder() async throws {
        try await Self.withApps(at: "2025-05-20") { server, _ in
            for round in 1...2 {
                for policy in OwnershipPolicy.allCases {
                    let cases = OwnershipCases(policy, round: round)
                    var random = TestSeed.generator(round)
                    var sent = (cases.before + cases.after).map { Message.notification($0) }
                    sent += sent.filter { _ in random.chance(40) }
                    sent += (cases.firstLinks + cases.firstLinks).map { Message.links($0) }
                    for message in sent.shuffled(using: &random) {
                        switch message {
                        case .notification(let body): try await Self.post(body, server)
                        case .links(let links): #expect(try await Self.put(links, cases, server) == 200)
                        }
                    }
                    try await server.isFolded()
                    for links in cases.secondLinks() + cases.secondLinks() {
                        #expect(try await Self.put(links, cases, server) == (policy == .firstBuyer ? 409 : 200))
                    }
                    try await server.isFolded()

                    try await Self.checkAnswers(of: cases, policy, server)
                    try await Self.checkHistories(of: cases, policy, server)
                }
            }
        }
    }

    private enum Message {
        case notification([UInt8])
        case links(OwnershipCases.Links)
    }
}

// MARK: - Requests

extension OwnershipCasesTests {
    /// The server's time, which a test sets.
    private final class Clock: Sendable {
        private let time: Mutex<Instant>

        init(_ day: String) { time = Mutex(OwnershipCases.day(day)) }

        var now: Instant { time.withLock { $0 } }

        func set(_ day: String) { time.withLock { $0 = OwnershipCases.day(day) } }
    }

    private static func withApps(
        at day: String, _ test: (TestBundle, Clock) async throws -> Void
    ) async throws {
        let clock = Clock(day)
        let apps = OwnershipPolicy.allCases.map {
            App(bundleId: OwnershipCases.bundleId($0), ownership: OwnershipRules(policy: $0))
        }
        try await TestBundle.withServer(apps: apps, roots: SignedBody.roots, now: { clock.now }) { server in
            for policy in OwnershipPolicy.allCases {
                try await CustomerRoutesTests.script(
                    server.database,
                    """
                    insert into subledger.app_ownership (app, policy)
                    values ('\(OwnershipCases.bundleId(policy))', '\(policy.rawValue)')
                    """)
            }
            try await test(server, clock)
        }
    }

    private static func query(_ cases: OwnershipCases) -> String { "app=\(cases.app.bundleId)&environment=sandbox" }

    private static func post(_ body: [UInt8], _ server: TestBundle) async throws {
        let answer = try await server.apple.post(body)
        #expect(answer.status == 200, "\(answer.body)")
    }

    /// The status.
    private static func put(
        _ links: OwnershipCases.Links, _ cases: OwnershipCases, _ server: TestBundle
    ) async throws -> Int {
        try await server.owner.put(links.body, to: "/customers/\(links.customer)/links?\(query(cases))").status
    }

    /// The active products of an id, sorted; empty for an unknown one.
    private static func products(
        _ name: String, _ day: String, _ cases: OwnershipCases, _ server: TestBundle, _ more: String = ""
    ) async throws -> String {
        let id = try #require(cases.ids[name], "\(name)")
        let answer = try await server.backend.get(
            "/customers/\(id.text)/entitlements?\(query(cases))&as=\(id.kind.rawValue)&at=\(day)T00:00:00Z\(more)")
        if answer.status == 404 { return "" }
        #expect(answer.status == 200, "\(name) \(answer.body)")
        let entitlements = answer.json["entitlements"] as? [[String: Any]] ?? []
        return entitlements.filter { $0["active"] as? Bool == true }
            .compactMap { ($0["entitlement"] as? String)?.dropFirst(cases.app.bundleId.count + 1) }
            .sorted().joined(separator: " ")
    }

    /// Compares the answers of HTTP and SQL with the expected ones.
    private static func checkAnswers(
        of cases: OwnershipCases, _ policy: OwnershipPolicy, _ server: TestBundle
    ) async throws {
        let rows = try await server.sql(
            """
            select concat_ws(' ', given.app, given.known_as, given.customer,
              to_char(asked.at at time zone 'UTC', 'YYYY-MM-DD'),
              string_agg(
                substr(given.entitlement, length(given.app) + 2), ' ' order by given.entitlement collate "C"
              ))
            from (
              values
                ('2025-02-15Z'::timestamptz), ('2025-03-10Z'), ('2025-03-20Z'), ('2025-04-15Z'), ('2025-05-03Z'),
                ('2025-05-20Z')
            ) as asked (at)
            cross join lateral subledger.entitlement_at(asked.at) as given
            where given.active
            group by given.app, given.known_as, given.customer, asked.at
            """)
        for expectation in expected {
            let id = try #require(cases.ids[expectation.id], "\(expectation.id)")
            let wanted = expectation.products[policy] ?? ""
            let place = "\(policy.rawValue): \(expectation.id) on \(expectation.day)"
            #expect(try await products(expectation.id, expectation.day, cases, server) == wanted, "\(place)")
            let start = "\(cases.app.bundleId) \(id.kind.rawValue) \(id.text) \(expectation.day) "
            #expect(rows.filter { $0.hasPrefix(start) } == (wanted.isEmpty ? [] : [start + wanted]), "\(place)")
        }
    }

    private static func checkHistories(
        of cases: OwnershipCases, _ policy: OwnershipPolicy, _ server: TestBundle
    ) async throws {
        for (name, wanted) in histories {
            let id = try #require(cases.ids[name], "\(name)")
            let answer = try await server.backend.get(
                "/customers/\(id.text)/history?\(query(cases))&as=\(id.kind.rawValue)")
            let entries = answer.json["history"] as? [[String: Any]] ?? []
            let lines = entries.map { entry in
                let gained = (entry["gained"] as? Bool).map { $0 ? " gained" : " lost" } ?? ""
                return "\(entry["kind"] as? String ?? "")\(gained) \((entry["at"] as? String ?? "").prefix(10))"
            }
            #expect(lines == wanted[policy], "\(policy.rawValue): \(name)")
        }
    }

    /// The changes of owners after a cursor: the subscription, whether it was lost or gained, and the customer.
    private static func changes(
        after cursor: String, _ cases: OwnershipCases, _ server: TestBundle
    ) async throws -> (lines: [String], cursor: String) {
        let answer = try await server.backend.get("/changes?\(query(cases))&after=\(cursor)&limit=1000")
        #expect(answer.status == 200, "\(answer.body)")
        let names = Dictionary(uniqueKeysWithValues: cases.ids.map { ($0.value.text, $0.key) })
        let changes = answer.json["changes"] as? [[String: Any]] ?? []
        let lines = changes.filter { $0["kind"] as? String == "customer_changed" }.map { change in
            let customer = change["customer"] as? [String: Any] ?? [:]
            let ids = ["backendCustomerIds", "appAccountTokens"].flatMap { customer[$0] as? [String] ?? [] }
            return [
                names[change["originalTransactionId"] as? String ?? ""] ?? "",
                change["until"] == nil ? "lost" : "gained", names[ids.first ?? ""] ?? "",
            ].joined(separator: " ")
        }
        return (lines, answer.json["cursor"] as? String ?? "")
    }
}
