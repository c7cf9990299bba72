// Measures how purchases of Google Play that are due are asked about: the poller of this release, PostgreSQL, and the
// simulated Google Play over HTTP on this machine.
//
//     swift build -c release --product Benchmarks && .build/release/Benchmarks poller
//
// All purchases are due at once, as after an outage: the worst case for the quota. The clock of the poller and of the store
// is simulated. It moves on only while a question waits for the quota, so a run takes as long as its work, and not as long
// as the quota asks for.

import AppStore
import ArgumentParser
import Encoding
import EventLog
import Foundation
import Logging
import PlayStore
import Postgres
import Readers
import Simulation
import StoreClient
import Synchronization
import TestSupport

struct PurchasePollerBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "poller", abstract: "Measure questions about due purchases of Google Play.")

    enum Store: String, CaseIterable, ExpressibleByArgument {
        case google
    }

    @Option(help: "The store that is asked.")
    var store = Store.google

    @Option(help: "The number of subscriptions that are due.")
    var subscriptions = 100_000

    @Option(help: "Stop after this many seconds.")
    var seconds = 900

    func validate() throws {
        guard (1...1_000_000).contains(subscriptions), (1...36_000).contains(seconds) else {
            throw ValidationError(
                "option out of range: expected --subscriptions 1 to 1000000 and --seconds 1 to 36000.")
        }
    }

    func run() async throws {
        progress("making \(subscriptions) subscriptions")
        let due = await DuePurchases.make(subscriptions)
        let clock = VirtualClock(DuePurchases.start)
        let play = SimulatedPlay(
            due.storyteller, stories: due.stories, now: clock.now,
            SimulatedPlay.Settings(packageName: DuePurchases.app))
        clock.follow { play.now = $0 }
        let served = try await ServedPlay.start(play)
        defer { served.stop() }
        let database = try await TestCluster.freshDatabase()
        try await due.write(to: database)
        progress("asking about them")
        let started = ContinuousClock.now
        let limit = started + .seconds(seconds)
        try await asking(database, served.address, clock) { poller in
            var next: Instant? = clock.now
            while let time = next, ContinuousClock.now < limit {
                clock.advance(to: time)
                let round = Task { try await poller.round(at: clock.now) }
                let ending = Task {
                    try await Task.sleep(until: limit, clock: .continuous)
                    round.cancel()
                }
                next = try await round.value.nextDue
                ending.cancel()
                // Those that are asked once are done; what is due again is due later.
                if try await due.left(in: database) == 0 { return }
            }
        }
        let took = ContinuousClock.now - started
        try await report(database, play, took)
    }

    /// Runs the work with a poller like that of the server.
    private func asking(
        _ database: ConnectionConfiguration, _ address: String, _ clock: VirtualClock,
        _ work: (PurchasePoller) async throws -> Void
    ) async throws {
        let quiet = Logger(label: "bench", factory: { _ in SwiftLogNoOpLogHandler() })
        let configuration = database.with(role: "subledger_poller")
        let pool = PostgresPool(configuration, limit: 4, logger: quiet)
        let receiver = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: quiet)
        let appender = Appender(pool: receiver, logger: quiet)
        let account = PlayServiceAccount.standard.keyFile(tokenURI: "\(address)/google/token")
        let app = GoogleApp(
            PlayApp(packageName: DuePurchases.app, pushAuthentication: .identity(audience: "a", email: "b")),
            credentials: .serviceAccount(try ServiceAccount(keyFile: account)))
        let transport = HTTPStoreTransport()
        let client = GoogleClient(
            transport: transport,
            addresses: GoogleAddresses(
                api: "\(address)/google", signingKeys: "\(address)/google/oauth2/v3/certs"),
            clock: clock.storeClock, logger: quiet)
        let leadership = StreamLeadership(Elector(configuration), for: .google)
        let log = LogReader(pool: pool)
        let poller = PurchasePoller(
            client: client, apps: [app], queue: PurchaseQueue(pool: pool), log: log,
            subscriptions: SubscriptionReader(pool: pool), appender: appender,
            links: LinkService(log: log, appender: appender, apps: [app.packageName]), leadership: leadership,
            clock: clock.storeClock, logger: quiet)
        async let appending: Void = appender.run()
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await work(poller))
        } catch {
            outcome = .failure(error)
        }
        await leadership.release()
        await appender.stop()
        await appending
        await transport.shutDown()
        await pool.close()
        await receiver.close()
        try outcome.get()
    }

    private func report(
        _ database: ConnectionConfiguration, _ play: SimulatedPlay, _ took: Duration
    ) async throws {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            DuePurchases.outcome, [Parameter(DuePurchases.start)], deadline: .now + .seconds(60))
        await connection.close()
        let asked: Int64 = try rows[0].value(at: 0)
        let simulated: Double = Double(try rows[0].value(Int64.self, at: 1)) / 60_000
        let results: String = try rows[0].value(at: 2)
        let events: Int64 = try rows[0].value(at: 3)
        let quota = play.quota
        let busiest = quota.busiestMinutes.values.max() ?? 0
        print(
            """
            \(Machine.description)
            asked about \(asked) of \(subscriptions) due subscriptions: \(results); \(events) events appended
            by the simulated clock: \(String(format: "%.1f", simulated)) minutes, \
            \(String(format: "%.0f", simulated > 0 ? Double(asked) / simulated : 0)) a minute, \
            busiest minute \(busiest) requests, above the quota of 3000: \(quota.violations)
            on this machine: \(String(format: "%.0f", took.inSeconds)) s, \
            \(String(format: "%.0f", Double(asked) / took.inSeconds)) a second
            """)
        guard quota.violations == 0, asked == subscriptions || took >= .seconds(seconds) else {
            throw ExitCode.failure
        }
    }
}

/// A clock that stands still, except that a sleep sets it to its end.
private final class VirtualClock: Sendable {
    private struct State {
        var now: Instant
        var follower: (@Sendable (Instant) -> Void)?
    }

    private let state: Mutex<State>
    private let start: Instant
    private let origin = ContinuousClock.now

    init(_ start: Instant) {
        self.start = start
        state = Mutex(State(now: start))
    }

    var now: Instant { state.withLock { $0.now } }

    /// Calls the follower each time the clock moves on.
    func follow(_ follower: @escaping @Sendable (Instant) -> Void) { state.withLock { $0.follower = follower } }

    func advance(to instant: Instant) {
        state.withLock { state in
            guard instant > state.now else { return }
            state.now = instant
            state.follower?(instant)
        }
    }

    var storeClock: StoreClock {
        StoreClock(
            date: { self.now }, now: { self.origin + self.start.duration(to: self.now) },
            sleep: { end in
                try Task.checkCancellation()
                // Whole milliseconds, rounded up.
                let milliseconds = ((end - self.origin) / .milliseconds(1)).rounded(.up)
                self.advance(to: self.start.advanced(byMilliseconds: Int64(milliseconds)))
                await Task.yield()
            })
    }
}

/// Subscriptions in the middle of their lives, all of which are due.
private struct DuePurchases: Sendable {
    struct Purchase: Sendable {
        let token: String
        let state: String
        let orderId: String?
    }

    static let app = "com.example.app"
    /// Half an hour before the end of Google's day: in one day, the questions that no notification leads to stop at 100,000,
    /// and a few renewals during the run lead to further questions about orders.
    static let start = Instant(iso8601: "2025-10-01T07:30:00.000Z")!

    let storyteller: PlayStoryteller
    /// The number of stories among which the purchases are.
    let stories: Int
    let purchases: [Purchase]

    /// Of twenty subscriptions, fifteen are renewed.
    private static let mix: [PlayStory] =
        Array(repeating: .renewals, count: 15) + [.cancelled, .graceRecovered, .holdRecovered, .holdEnded, .paused]
    private static let chunk = 2000

    static func make(_ count: Int) async -> DuePurchases {
        var settings = PlayStoryteller.Settings()
        settings.stories = mix
        let storyteller = PlayStoryteller(settings)
        var purchases: [Purchase] = []
        var stories = 0
        while purchases.count < count {
            let first = stories
            async let left = found(storyteller, first..<first + chunk)
            async let right = found(storyteller, first + chunk..<first + 2 * chunk)
            purchases += await left + right
            stories += 2 * chunk
        }
        return DuePurchases(storyteller: storyteller, stories: stories, purchases: Array(purchases.prefix(count)))
    }

    /// The purchases that have begun and not ended.
    private static func found(_ storyteller: PlayStoryteller, _ numbers: Range<Int>) async -> [Purchase] {
        numbers.compactMap { number in
            guard let life = storyteller.story(at: number).subscriptions.first,
                let purchase = life.tokens.last(where: { $0.book(at: start) != nil }),
                let book = purchase.book(at: start), ![.expired, .pendingPurchaseCanceled].contains(book.state)
            else { return nil }
            return Purchase(
                token: purchase.token, state: book.state.rawValue, orderId: book.items.first?.successfulOrderId)
        }
    }

    /// Records the purchases as if they had been asked about before, and were due.
    func write(to database: ConnectionConfiguration) async throws {
        let connection = try await TestCluster.connect(database)
        for first in stride(from: 0, to: purchases.count, by: 10_000) {
            let part = purchases[first..<min(first + 10_000, purchases.count)]
            _ = try await connection.query(
                Self.insert,
                [
                    Parameter(Self.app), Parameter(Self.start), .array(part.map(\.token)), .array(part.map(\.state)),
                    .array(part.map(\.orderId)),
                ], deadline: .now + .seconds(60))
        }
        await connection.close()
    }

    /// The number of purchases that were not asked about since the start.
    func left(in database: ConnectionConfiguration) async throws -> Int64 {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(Self.open, [Parameter(Self.start)], deadline: .now + .seconds(60))
        await connection.close()
        return try rows[0].value(at: 0)
    }

    private static let insert = Statement(
        "bench_insert_purchases",
        """
        insert into subledger.google_purchase (
          app, token_sha256, purchase_token, resource, environment, noticed_at, rank, due_at, state, order_id
        )
        select $1, sha256(convert_to(token, 'UTF8')), token, 'subscription', 'production', $2 - interval '90 days', 2,
          $2, state, order_id
        from unnest($3::text[], $4::text[], $5::text[]) as purchase (token, state, order_id)
        """)

    private static let open = Statement(
        "bench_open_purchases",
        """
        select count(*)
        from subledger.google_purchase
        where asked_at is null
          or asked_at < $1
        """)

    static let outcome = Statement(
        "bench_purchase_outcome",
        """
        select (select count(*) from subledger.google_purchase where asked_at >= $1),
          (
            select coalesce((extract(epoch from max(asked_at) - $1) * 1000)::bigint, 0)
            from subledger.google_purchase
          ),
          (
            select coalesce(string_agg(concat_ws(' ', result, count), ', ' order by result), '')
            from (
              select result, count(*) as count
              from subledger.google_purchase
              where asked_at >= $1
              group by result
            ) as outcome
          ),
          (select count(*) from subledger.event)
        """)
}
