import EventLog
import Postgres
import TestSupport
import Testing

@Suite("Bodies are stored compactly and returned as they arrived")
struct BodyStorageTests {
    @Test("event_body returns the bytes of every body's digest")
    func function() async throws {
        try await SimulatedLog.withEveryStory { log in
            let connection = try await TestCluster.connect(log.database.with(role: "subledger_projector"))
            let rows = try await connection.query(Self.bodies, deadline: .now + .seconds(60))
            await connection.close()

            #expect(try rows[0].value(Int64.self, at: 0) == 0, "bodies that do not match their digest")
            #expect(try rows[0].value(Int64.self, at: 1) > 100, "signed ones")
            #expect(
                try rows[0].value(Int64.self, at: 2) == 0, "signed ones stored in more than a quarter of their size")
            #expect(try await log.lines("select count(*)::text from subledger.jws_header") == ["1"])
        }
    }

    private static let bodies = Statement(
        "test_bodies",
        """
        select
          count(*) filter (where sha256(arrived) <> body_sha256),
          count(*) filter (where source = 'apple-v2'),
          count(*) filter (where source = 'apple-v2' and octet_length(body) * 4 > octet_length(arrived))
        from (
          select source, body, body_sha256, subledger.event_body(stream_id, position) as arrived
          from subledger.event
          join subledger.event_body using (stream_id, position, received_at)
        ) as stored
        """)

    @Test("reading a body with a missing header is an error")
    func missing() async throws {
        try await SimulatedLog.withEveryStory { log in
            try await log.script(
                """
                alter table subledger.jws_header disable trigger jws_header_append_only;
                delete from subledger.jws_header
                """)

            await #expect(throws: PostgresError.self) {
                try await log.script(
                    "select subledger.event_body(stream_id, position) from subledger.event where source = 'apple-v2'")
            }
        }
    }

    @Test("concurrent writers of the same header store it once per stream")
    func atOnce() async throws {
        try await SimulatedLog.with { log in
            let sandbox = try await SimulatedLog.deliveries()
            let production = try await SimulatedLog.deliveries(environment: .production)

            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await log.append(sandbox) }
                group.addTask { try await log.append(sandbox.reversed()) }
                group.addTask { try await log.append(production) }
                try await group.waitForAll()
            }

            #expect(
                try await log.lines("select stream_id::text from subledger.jws_header order by stream_id") == [
                    "1", "2",
                ])
            #expect(
                try await log.lines(
                    """
                    select count(*)::text
                    from subledger.event
                    where sha256(subledger.event_body(stream_id, position)) <> body_sha256
                    """) == ["0"])
        }
    }
}
