import Foundation
import Postgres
import TestSupport
import Testing

@Suite("SQL agrees with the simulator's expected answers")
struct AnswerKeyTests {
    /// The number of stories; SUBLEDGER_TEST_SUBSCRIPTIONS sets a larger one.
    private static let subscriptions =
        ProcessInfo.processInfo.environment["SUBLEDGER_TEST_SUBSCRIPTIONS"] ?? "60"

    /// The number of compared answers and the wrong ones, from the lines of `store-simulator --expected`.
    static let differences = Statement(
        "differences",
        """
        with answer as materialized (
          select line ->> 'app' as app, line ->> 'environment' as environment, line ->> 'customerId' as customer,
            line ->> 'as' as known_as, line ->> 'entitlement' as entitlement, (line ->> 'at')::timestamptz as at,
            (line ->> 'active')::boolean as active,
            coalesce((line ->> 'until')::timestamptz, 'infinity') as until
          from (
            select text::jsonb as line
            from unnest($1::text[]) as input (text)
          ) as input
          where line ? 'customerId'
        )
        select count(*),
          coalesce(string_agg(answer::text, E'\n') filter (
            where coalesce(given.active, false) is distinct from answer.active
              or answer.active and given.until is distinct from answer.until
          ), '')
        from answer
        left join lateral (
          select active, until
          from subledger.entitlement_at(answer.at) as entitlement
          where entitlement.app = answer.app
            and entitlement.environment = answer.environment
            and entitlement.customer = answer.customer
            and entitlement.known_as = answer.known_as
            and entitlement.entitlement = answer.entitlement
        ) as given on true
        """)

    /// Rows of only the view or only the function.
    static let viewDifferences = Statement(
        "view_differences",
        """
        select count(*)
        from (select * from subledger.entitlement) as present
        full join (select * from subledger.entitlement_at(now())) as function
          using (app, environment, customer, known_as, owner_kind, owner_id, entitlement)
        where (present.active, present.until, present.positions)
          is distinct from (function.active, function.until, function.positions)
        """)

    @Test("entitlement_at returns the expected answers, and view entitlement agrees with entitlement_at")
    func entitlements() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func file(_ name: String) -> String { folder.appendingPathComponent(name).path }
        let app = ["--bundle-id", V1Body.app, "--secret", V1Body.secret]
        let written = try ServerProcess.simulate(
            ["--write-root", file("root.pem"), "--write-products", file("products.csv")] + app)
        #expect(written.status == 0, "\(written.error)")
        let database = try await SharedDatabase.make()
        let server = try database.server("receiver,projector,reader", more: ["SUBLEDGER_ROOT_FILES": file("root.pem")])
        let ports = try await server.ports()
        let imported = try ServerProcess.run(
            ["product", "import", file("products.csv")], environment: database.environment())
        #expect(imported.status == 0, "\(imported.error)")

        let told = try ServerProcess.simulate(
            [
                "--subscriptions", Self.subscriptions, "--format", "both", "--order", "shuffled",
                "--duplicate", "0.2", "--expected", file("expected.jsonl"),
                "--url", "http://127.0.0.1:\(ports.public)/apple/notifications",
                "--links", "http://127.0.0.1:\(ports.private)", "--token", try await database.token(.link),
            ] + app, limit: 600)
        #expect(told.status == 0, "\(told.error)")
        _ = try await eventually("all events are folded") {
            let behind = try await database.lines(
                """
                select stream_id::text
                from subledger.stream_head
                left join subledger.checkpoint using (stream_id)
                where stream_head.position > coalesce(checkpoint.position, 0)
                """)
            return behind.isEmpty ? true : nil
        }

        let lines = try String(contentsOfFile: file("expected.jsonl"), encoding: .utf8).split(separator: "\n")
        let owner = try await TestCluster.connect(database.configuration)
        let found = try await owner.query(
            Self.differences, [.array(lines.map(String.init))], deadline: .now + .seconds(600))
        let compared: Int64 = try found[0].value(at: 0)
        let wrong: String = try found[0].value(at: 1)
        #expect(compared > 1000)
        #expect(wrong == "")
        let view = try await owner.query(Self.viewDifferences, deadline: .now + .seconds(60))
        #expect(try view[0].value(Int64.self, at: 0) == 0)
        print("compared \(compared) answers")
        await owner.close()
        server.signal(SIGTERM)
        try await server.hasEnded()
    }
}
