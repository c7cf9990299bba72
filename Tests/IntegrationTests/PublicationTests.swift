import EventLog
import Foundation
import Logging
import Postgres
import TestSupport
import Testing

@Suite("A second PostgreSQL can subscribe to what is only ever inserted")
struct PublicationTests {
    private static let rows: SQL = """
        select format('event %s', (
            stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, fingerprint, facts,
            defects, body_sha256, chain_id, revocation, chain
          )) as line
        from subledger.event
        union all
        select format('change %s', change) from subledger.change
        union all
        select format('stream %s', stream) from subledger.stream
        order by line
        """

    private func lines(_ database: ConnectionConfiguration) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            Statement("published_rows", Self.rows), deadline: .now + .seconds(20))
        let lines: [String] = try rows.map { try $0.value(at: 0) }
        await connection.close()
        return lines
    }

    @Test("a subscriber has the events without their bodies, the changes and the streams, those from before included")
    func subscribed() async throws {
        let publisher = try await EmbeddedServer.start(
            folder: TestFolder.path("publisher"), settings: ["wal_level": "logical"],
            logger: Logger(label: "publisher", factory: { _ in SwiftLogNoOpLogHandler() }))
        do {
            try await publisher.createDatabase("ledger")
            let ledger = publisher.configuration(database: "ledger")
            try await TestCluster.migrate(ledger)
            let deliveries = try await SimulatedLog.deliveries(subscriptions: 4)
            try await SimulatedLog.with(database: ledger) { log in
                try await log.append(deliveries[..<20])
                await log.projector.foldAllStreams()
                try await withSubscriber(of: publisher) { subscriber in
                    try await log.append(deliveries[20...])
                    await log.projector.foldAllStreams()
                    let published = try await lines(ledger)
                    _ = try await eventually("the subscriber has all rows") {
                        try await lines(subscriber) == published ? true : nil
                    }
                    #expect(published.count > deliveries.count / 2)
                }
            }
            await publisher.stop()
        } catch {
            await publisher.stop()
            throw error
        }
    }

    /// Runs the test with a database of the test cluster that subscribes, and ends the subscription.
    private func withSubscriber(
        of publisher: EmbeddedServer, _ test: (ConnectionConfiguration) async throws -> Void
    ) async throws {
        let database = try await TestCluster.emptyDatabase()
        let connection = try await TestCluster.connect(database)
        // Columns as SQL.md lists them.
        try await connection.script(
            """
            create schema subledger;
            create table subledger.stream (
              stream_id integer primary key, app text, environment text, created_at timestamptz
            );
            create table subledger.event (
              stream_id integer, position bigint, received_at timestamptz, occurred_at timestamptz, source text,
              type text, subtype text, kind text, dedupe_key bytea, fingerprint bytea, facts jsonb, defects jsonb,
              body_sha256 bytea, chain_id bytea, revocation text, chain bytea,
              primary key (stream_id, position)
            );
            create table subledger.change (
              stream_id integer, number bigint, published_at timestamptz, kind text, original_transaction_id text,
              at timestamptz, cause text, position bigint, product_id text, until timestamptz, auto_renew boolean,
              next_product_id text, customer_kind text, customer_id text, seats_before integer, seats integer,
              reason text,
              primary key (stream_id, number)
            );
            """, deadline: .now + .seconds(20))
        let source = "host=\(publisher.socketFolder) dbname=ledger user=subledger"
        try await connection.script(
            "create subscription copy connection '\(source)' publication subledger_feed", deadline: .now + .seconds(20))
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(database))
        } catch {
            outcome = .failure(error)
        }
        try await connection.script("drop subscription copy", deadline: .now + .seconds(20))
        await connection.close()
        try outcome.get()
    }
}
