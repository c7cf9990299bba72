import EventLog
import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Migrations lead to the schema that a new database gets")
struct MigrationTests {
    private static var firstSchema: String {
        get throws {
            let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            return try String(contentsOf: folder.appendingPathComponent("Fixtures/schema-1.sql"), encoding: .utf8)
        }
    }

    @Test("from version 1, with an event that keeps its bytes and gets their digest")
    func fromFirst() async throws {
        let old = try await TestCluster.connect(try await TestCluster.emptyDatabase())
        try await old.script(try Self.firstSchema, deadline: .now + .seconds(20))
        try await old.script(
            """
            insert into subledger.event (
              stream_id, position, received_at, source, kind, dedupe_key, facts, body
            )
            values (1, 1, now(), 'apple-v1', 'other', sha256('k'), '{"transactions":[],"renewals":[]}', 'abc');
            insert into subledger.stream (stream_id, app, environment)
            values (1, 'com.example.a', 'production'), (2, 'com.example.a', 'sandbox'), (3, 'com.example.b', 'sandbox');
            insert into subledger.stream_head (stream_id, position) values (1, 1), (2, 0), (3, 0);
            insert into subledger.checkpoint (stream_id, position, products)
            values
              (1, 1, E'consumable\\tcoins\\nnon-renewing P3M\\tseason'),
              (2, 0, E'consumable\\tcoins\\nnon-renewing P3M\\tseason'),
              (3, 0, '');
            """, deadline: .now + .seconds(20))

        #expect(try await Schema.migrate(old) == .applied)
        #expect(try await Schema.migrate(old) == .upToDate)

        let new = try await TestCluster.connect(try await TestCluster.freshDatabase())
        let (migrated, made) = (try await SchemaCatalog.lines(of: old), try await SchemaCatalog.lines(of: new))
        #expect(made.count > 100)
        #expect(Set(migrated).subtracting(made) == [])
        #expect(Set(made).subtracting(migrated) == [])
        let event = try await old.query(
            Statement(
                "event",
                "select encode(subledger.event_body(stream_id, position), 'escape'), encode(body_sha256, 'hex') from subledger.event"
            ),
            deadline: .now + .seconds(20))
        #expect(try event[0].value(String.self, at: 0) == "abc")
        #expect(
            try event[0].value(String.self, at: 1)
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        let versions = try await old.query(
            Statement("versions", "select count(*), max(version) from subledger.schema_version"),
            deadline: .now + .seconds(20))
        #expect(try versions[0].value(Int64.self, at: 0) == 7)
        #expect(try versions[0].value(Int32.self, at: 1) == 7)
        let products = try await old.query(
            Statement("products", "select app, products from subledger.product_catalog"), deadline: .now + .seconds(20))
        #expect(products.count == 1)
        #expect(try products[0].value(String.self, at: 0) == "com.example.a")
        // What the rows were folded with, so that nothing is folded anew.
        #expect(try products[0].value(String.self, at: 1) == "consumable\tcoins\nnon-renewing P3M\tseason")
        // What was there stays as it is, what comes is sealed.
        try await old.script(
            """
            insert into subledger.event (
              stream_id, position, received_at, source, kind, dedupe_key, facts, body, body_sha256
            )
            values (1, 2, now(), 'apple-v1', 'other', sha256('l'), '{}', 'abc', sha256('abc'));
            """, deadline: .now + .seconds(20))
        let seals = try await old.query(
            Statement(
                "seals",
                """
                select concat_ws(' ', event.position, event.seal = subledger.seal(event), stream.sealed_from,
                  stream.seal = subledger.seal(stream))
                from subledger.event
                join subledger.stream using (stream_id)
                order by event.position
                """), deadline: .now + .seconds(20))
        #expect(try seals.map { try $0.value(String.self, at: 0) } == ["1 2 t", "2 t 2 t"])
        await #expect(throws: PostgresError.self) {
            try await old.script("update subledger.event set kind = 'x'", deadline: .now + .seconds(20))
        }
        await old.close()
        await new.close()
    }
}
