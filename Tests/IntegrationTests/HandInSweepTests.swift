import Encoding
import EventLog
import Postgres
import TestSupport
import Testing

@testable import StoreClient

@Suite("What strangers hand in leaves no rows for ever")
struct HandInSweepTests {
    /// Sweeps as a process of the poller.
    private static func sweep(_ bundle: HandInBundle, after pause: Duration) async throws {
        let pool = PostgresPool(
            bundle.server.database.with(role: "subledger_poller"), limit: 1, logger: LogRecorder().logger)
        let outcome: Result<Void, any Error>
        do {
            let now = TestBundle.now.advanced(by: pause)
            try await HandInSweep(
                purchases: PurchaseQueue(pool: pool), receipts: HandInLog(pool: pool), clock: StoreClock(date: { now }),
                logger: LogRecorder().logger
            ).round(at: now)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        await pool.close()
        try outcome.get()
    }

    private static func rows(_ bundle: HandInBundle) async throws -> [String] {
        try await bundle.server.sql(
            """
            select 'purchase ' || purchase_token as row from subledger.google_purchase
            union all
            select 'receipt of ' || customer_id from subledger.receipt
            order by row
            """)
    }

    @Test("refused receipts and unknown purchases are forgotten after 30 days, and nothing that a store has confirmed")
    func forgotten() async throws {
        try await HandInBundle.with { bundle in
            _ = try await bundle.handIn(.purchaseToken, customer: "anna")
            _ = try await bundle.handIn(.receipt, customer: "anna")
            // Google and Apple know nothing of these.
            let junk = try await bundle.handIn(.purchaseToken, customer: "boris", more: ["purchaseToken": "junk"])
            let refused = try await bundle.handIn(
                .receipt, 2, customer: "boris", more: ["receipt": ReceiptSample.receipt(99)])
            #expect([422, 202].contains(junk.status), "\(junk.body)")
            #expect([422, 202].contains(refused.status), "\(refused.body)")
            try await bundle.script(
                """
                update subledger.google_purchase
                set rank = null, due_at = null, result = 'not_found', asked_at = timestamptz '2019-11-08'
                where purchase_token = 'junk';
                update subledger.receipt
                set state = 'refused', receipt = '', next_at = null, asking_until = null, problem = 'status',
                  asked_at = timestamptz '2019-11-08'
                where customer_id = 'boris'
                """)
            let known = ["purchase \(HandInBundle.id(.purchaseToken, 1))", "receipt of anna"]
            let asked = try #require(Instant(iso8601: "2019-11-08T00:00:00Z"))

            try await Self.sweep(bundle, after: TestBundle.now.duration(to: asked) + .seconds(29 * 86_400))
            #expect(try await Self.rows(bundle).count == 4)
            try await Self.sweep(bundle, after: TestBundle.now.duration(to: asked) + .seconds(31 * 86_400))
            #expect(try await Self.rows(bundle) == known)
            try await Self.sweep(bundle, after: .seconds(1000 * 86_400))
            #expect(try await Self.rows(bundle) == known)
        }
    }

    @Test("beyond a bound of purchases without an answer, only those are accepted that are known or that Google signed")
    func bound() async throws {
        try await HandInBundle.with { bundle in
            _ = try await bundle.handIn(.purchaseToken, customer: "anna")
            try await bundle.script(
                """
                insert into subledger.google_purchase (app, token_sha256, purchase_token, noticed_at, rank, due_at, customer_ids)
                select '\(HandInWay.purchaseToken.app)', sha256(convert_to('junk' || number, 'UTF8')), 'junk' || number,
                  now(), 0, now(), array['boris']
                from generate_series(1, \(Limits.unansweredPurchasesMax)) as number
                """)
            bundle.clock.advance(by: .seconds(10))
            let before = try await bundle.server.sql(
                "select count(*)::text from subledger.google_purchase")

            let junk = try await bundle.post(
                Array(#"{"purchaseToken":"more junk","customerId":"boris"}"#.utf8), .purchaseToken)
            let other = try await bundle.post(
                Array(#"{"purchaseToken":"more-junk","customerId":"boris"}"#.utf8), .purchaseToken)
            let known = try await bundle.handIn(.purchaseToken, customer: "anna")
            let signed = try await bundle.handIn(.signedPurchase, customer: "carla")

            #expect(junk.status == 400)
            #expect(other.status == 503, "\(other.body)")
            #expect(other.headers["retry-after"] != nil)
            #expect(known.status == 200, "\(known.body)")
            #expect(signed.status == 200, "\(signed.body)")
            let after = try await bundle.server.sql("select count(*)::text from subledger.google_purchase")
            #expect(Int(after[0]) == (Int(before[0]) ?? 0) + 1)
        }
    }
}
