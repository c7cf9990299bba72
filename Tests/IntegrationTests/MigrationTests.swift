import EventLog
import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Migrations lead to the schema that a new database gets")
struct MigrationTests {
    /// Everything of the schema that somebody could rely on, a line each.
    private static let catalog: StaticString = """
        with relation as (
          select pg_class.oid, relname, relacl
          from pg_class
          where relnamespace = 'subledger'::regnamespace
        )
        select format('column %s.%s %s %s %s %s', relname, attnum, attname, format_type(atttypid, atttypmod),
          concat_ws(' ', attnotnull, attcompression, attacl), col_description(attrelid, attnum))
        from pg_attribute
        join relation on relation.oid = attrelid
        where attnum > 0
        union all
        select format('constraint %s.%s %s', relname, conname, pg_get_constraintdef(pg_constraint.oid))
        from pg_constraint
        join relation on relation.oid = conrelid
        union all
        select format('trigger %s.%s %s %s', relname, tgname, tgenabled, pg_get_triggerdef(pg_trigger.oid))
        from pg_trigger
        join relation on relation.oid = tgrelid
        union all
        select format('relation %s %s %s', relname, relacl, obj_description(oid, 'pg_class'))
        from relation
        union all
        select format('function %s %s', proname, prosrc)
        from pg_proc
        where pronamespace = 'subledger'::regnamespace
        union all
        select format('version %s', version)
        from subledger.schema_version
        order by 1
        """

    private static func catalog(of connection: PostgresConnection) async throws -> [String] {
        let rows = try await connection.query(Statement("catalog", catalog), deadline: .now + .seconds(20))
        return try (0..<rows.count).map { try rows[$0].value(at: 0) }
    }

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
            """, deadline: .now + .seconds(20))

        #expect(try await Schema.migrate(old) == .applied)
        #expect(try await Schema.migrate(old) == .upToDate)

        let new = try await TestCluster.connect(try await TestCluster.freshDatabase())
        let (migrated, made) = (try await Self.catalog(of: old), try await Self.catalog(of: new))
        #expect(made.count > 100)
        #expect(Set(migrated).subtracting(made) == [])
        #expect(Set(made).subtracting(migrated) == [])
        let event = try await old.query(
            Statement("event", "select encode(body, 'escape'), encode(body_sha256, 'hex') from subledger.event"),
            deadline: .now + .seconds(20))
        #expect(try event[0].value(String.self, at: 0) == "abc")
        #expect(
            try event[0].value(String.self, at: 1)
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        await #expect(throws: PostgresError.self) {
            try await old.script("update subledger.event set kind = 'x'", deadline: .now + .seconds(20))
        }
        await old.close()
        await new.close()
    }
}
