import Encoding
import Foundation
import Postgres
import Projector
import Readers
import Subscriptions
import TestSupport
import Testing

@Suite("A projector with a fast clock publishes no future expiration")
struct FastClockTests {
    private static let hour: Int64 = 3_600_000

    private static var now: Instant {
        Instant(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) ?? .latest
    }

    /// A subscription that started an hour ago and ends in half an hour, and one that starts then.
    private static func purchases(_ now: Instant) -> String {
        func transaction(_ id: Int, _ from: Int64, _ until: Int64) -> String {
            """
            {"originalTransactionId":"\(id)","productId":"monthly","webOrderLineItemId":"\(id)","transactionId":"\(id)",\
            "purchaseDate":"\(now.advanced(byMilliseconds: from))",\
            "expiresDate":"\(now.advanced(byMilliseconds: until))","quantity":1}
            """
        }
        return """
            insert into subledger.stream (stream_id, app, environment) values (1, '\(V1Body.app)', 'production');
            insert into subledger.stream_head (stream_id, position, chain) values (1, 1, sha256(''));
            insert into subledger.event (
              stream_id, position, received_at, source, kind, dedupe_key, facts, body_sha256, chain
            )
            values (1, 1, now(), 'apple-v2', 'purchase', sha256('1'),
              '{"transactions":[\(transaction(1, -hour, hour / 2)),\(transaction(2, hour / 2, hour))],"renewals":[]}',
              sha256('{}'), sha256(''))
            """
    }

    /// The first page of the feed, read with a correct clock.
    private static func page(_ log: SimulatedLog) async throws -> ChangeReader.Page {
        let pool = PostgresPool(
            log.database.with(role: "subledger_reader"), limit: 1, logger: LogRecorder().logger)
        let reader = ChangeReader(pool: pool)
        let stream = StreamKey(app: V1Body.app, environment: .production)
        let head = try #require(try await reader.head(of: stream))
        let page = try await reader.changes(of: stream, head, after: .start, limit: 10, now: now)
        await pool.close()
        return try #require(page)
    }

    @Test("with a clock an hour fast, only the current subscription is published, and pages are as of now")
    func hourAhead() async throws {
        try await SimulatedLog.with { log in
            let role = log.database.with(role: "subledger_projector")
            let projector = Projector(
                pool: log.projection, listener: role, now: { Self.now.advanced(byMilliseconds: Self.hour) },
                logger: LogRecorder().logger)
            try await log.script(Self.purchases(Self.now))

            #expect(await projector.foldAllStreams())
            // A second fold has nothing to do until then and does not loop.
            #expect(await projector.foldAllStreams())

            #expect(
                try await log.lines("select format('%s %s', kind, original_transaction_id) from subledger.change")
                    == ["opened 1"])
            #expect(
                try await log.lines(
                    """
                    select format('%s %s', published_until < clock_timestamp() + interval '5 seconds', next_at > published_until)
                    from subledger.change_head
                    """) == ["t t"])
            let page = try await Self.page(log)
            #expect(page.asOf < Self.now.advanced(byMilliseconds: 5000))
            #expect(page.changes.first?.customer.entitlements.map(\.entitlement) == ["monthly"])
        }
    }

    @Test("a page is as of now even if changes were published too early")
    func publishedEarly() async throws {
        try await SimulatedLog.with { log in
            try await log.script(Self.purchases(Self.now))
            #expect(await log.projector.foldAllStreams())
            try await log.script(
                "update subledger.change_head set published_until = published_until + interval '1 hour'")

            let page = try await Self.page(log)

            #expect(page.asOf < Self.now.advanced(byMilliseconds: 5000))
        }
    }
}
