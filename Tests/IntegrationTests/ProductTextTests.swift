import Encoding
import Foundation
import Postgres
import Projector
import Readers
import Subscriptions
import TestSupport
import Testing

@Suite("Projection, rebuild and verify agree on any configured products")
struct ProductTextTests {
    private static let products = 1000
    private static let rounds = 3

    /// One letter in several spellings, joining letters, right-to-left text, characters beyond the first plane, and
    /// invisible characters.
    private static let fragments = [
        "a", "Z", "7", ".", " ", "\u{E9}", "e\u{301}", "\u{212B}", "\u{C5}", "A\u{30A}", "\u{FB01}", "\u{1E9B}\u{323}",
        "\u{5E9}\u{5DC}\u{5D5}\u{5DD}", "\u{645}\u{631}\u{62D}\u{628}\u{627}", "\u{202E}", "\u{939}\u{93F}\u{902}",
        "\u{AC01}", "\u{1100}\u{1161}\u{11A8}", "\u{96D1}\u{8A8C}", "\u{F900}", "\u{E01}\u{E33}", "\u{1F1E9}\u{1F1EA}",
        "\u{1F469}\u{200D}\u{1F467}", "\u{200B}", "\u{FEFF}", "\u{301}", "\u{10FFFD}",
    ]

    /// The given number of ids that differ in their bytes, including canonically equivalent spellings.
    private static func ids(_ random: inout SeededGenerator) -> [String] {
        var found: Set<ByteString> = []
        while found.count < products {
            let id = (0...Int.random(in: 0..<4, using: &random)).map { _ in
                fragments[Int.random(in: 0..<fragments.count, using: &random)]
            }.joined()
            for spelling in [
                id, id.precomposedStringWithCanonicalMapping, id.decomposedStringWithCanonicalMapping,
            ] where found.count < products {
                found.insert(ByteString(spelling))
            }
        }
        return found.sorted().map(\.text)
    }

    /// Any valid duration except zero.
    private static func duration(_ random: inout SeededGenerator) -> String {
        while true {
            var text = "P"
            for (unit, digits) in [("Y", 4), ("M", 4), ("W", 4), ("D", 5)] where random.chance(50) {
                for _ in 0...Int.random(in: 0..<digits, using: &random) {
                    text += random.chance(40) ? "0" : String(Int.random(in: 0...9, using: &random))
                }
                text += unit
            }
            if text.contains(where: { "1"..."9" ~= $0 }) { return text }
        }
    }

    private static func configured(_ ids: [String], _ random: inout SeededGenerator) throws -> [ConfiguredProduct] {
        try ids.map { id in
            let kind = random.chance(80) ? "non-renewing" : ConfiguredProduct.kinds[random.chance(50) ? 2 : 3]
            return try ConfiguredProduct(
                app: V1Body.app, productId: id, kind: kind,
                duration: kind == "non-renewing" ? duration(&random) : nil, entitlements: [])
        }
    }

    /// One transaction per product, a hundred per event.
    private static func purchases(_ ids: [String]) -> String {
        var events: [String] = []
        for first in stride(from: 0, to: ids.count, by: 100) {
            let transactions = ids[first..<min(first + 100, ids.count)].enumerated().map { offset, id in
                """
                {"originalTransactionId":"\(first + offset)","productId":"\(id)","purchaseDate":"2019-01-31T10:00:00.000Z",\
                "quantity":1,"transactionId":"\(first + offset)"}
                """
            }
            events.append(
                """
                (1, \(events.count + 1), now(), 'apple-v2', 'purchase', sha256('\(first)'),
                  '{"transactions":[\(transactions.joined(separator: ","))],"renewals":[]}', sha256('{}'),
                  sha256(''))
                """)
        }
        return """
            insert into subledger.stream (stream_id, app, environment) values (1, '\(V1Body.app)', 'sandbox');
            insert into subledger.stream_head (stream_id, position, chain) values (1, \(events.count), sha256(''));
            insert into subledger.event (
              stream_id, position, received_at, source, kind, dedupe_key, facts, body_sha256, chain
            )
            values \(events.joined(separator: ",\n"))
            """
    }

    /// Compared with PostgreSQL's own interval arithmetic: periods whose end differs from their duration.
    private static let wrongEnds: StaticString = """
        select format('%s %s: %s', product.kind, product.duration, access_period.ends_at)
        from subledger.product
        join subledger.transaction using (product_id)
        left join subledger.access_period using (stream_id, transaction_id)
        where access_period.ends_at is distinct from case product.kind
          when 'consumable' then null
          when 'non-consumable' then 'infinity'
          when 'non-renewing' then (
            select case when ends < '9999-12-31 23:59:59.999' then ends at time zone 'UTC' else 'infinity' end
            from (select timestamp '2019-01-31 10:00:00' + product.duration::interval as ends) as counted
          )
        end
        """
    private static let versions: StaticString = """
        select md5(string_agg(format('%s %s', xmin, original_transaction_id), ',' order by original_transaction_id))
        from subledger.subscription
        """
    private static let texts: StaticString = """
        select (checkpoint.products = product_catalog.products)::text
        from subledger.checkpoint
        cross join subledger.product_catalog
        """

    @Test(
        "projection, rebuild and verify agree for ids in every script and durations of every form",
        .timeLimit(.minutes(5)))
    func agree() async throws {
        var random = TestSeed.generator()
        let ids = Self.ids(&random)
        try await SimulatedLog.with { log in
            try await log.script(Self.purchases(ids))
            for round in 1...Self.rounds {
                try await Self.state(try Self.configured(ids, &random), log.database)

                let isHealthy = await Self.foldWithinAMinute(log)

                #expect(isHealthy, "round \(round)")
                #expect(try await log.lines(Self.texts) == ["true"])
                #expect(try await log.lines(Self.wrongEnds) == [])
                let versions = try await log.lines(Self.versions)
                #expect(await log.projector.foldAllStreams())
                #expect(try await log.lines(Self.versions) == versions, "rows were written again")
                #expect(try await log.rebuild().rowsReplaced == 0)
                #expect(try await Self.finding(log.database) == nil)
            }
        }
    }

    @Test("a rebuild alone applies changed products to the rows")
    func rebuild() async throws {
        var random = TestSeed.generator(1)
        let ids = Self.ids(&random)
        try await SimulatedLog.with { log in
            try await log.script(Self.purchases(ids))
            #expect(await log.projector.foldAllStreams())
            try await Self.state(try Self.configured(ids, &random), log.database)

            #expect(try await log.rebuild().rowsReplaced > 0)

            #expect(try await log.lines(Self.wrongEnds) == [])
            #expect(try await log.lines(Self.texts) == ["true"])
            #expect(try await Self.finding(log.database) == nil)
        }
    }

    @Test("an equivalent duration in another spelling updates the checkpoint's products")
    func otherWords() async throws {
        try await SimulatedLog.with { log in
            try await log.script(Self.purchases(["season"]))
            for duration in ["P12M", "P1Y", "P01Y", "P2W", "P14D", "P3M"] {
                let product = try ConfiguredProduct(
                    app: V1Body.app, productId: "season", kind: "non-renewing", duration: duration, entitlements: [])
                try await Self.state([product], log.database)

                #expect(await Self.foldWithinAMinute(log), "\(duration)")

                #expect(
                    try await log.lines("select products from subledger.checkpoint")
                        == ["non-renewing \(duration)\tseason"])
                #expect(try await log.lines(Self.wrongEnds) == [])
            }
        }
    }

    @Test("rows that stay out of date after a fold are not written again, and the fold reports failure")
    func repeated() async throws {
        try await SimulatedLog.with { log in
            try await log.script(Self.purchases(["season"]))
            #expect(await log.projector.foldAllStreams())
            // As if another release with another projection version kept changing it back.
            try await log.script(
                """
                create function subledger.spoil() returns trigger language plpgsql as
                $$ begin new.projection_version := 0; return new; end $$;
                create trigger spoil before update on subledger.checkpoint
                  for each row execute function subledger.spoil();
                update subledger.checkpoint set projection_version = 0
                """)

            #expect(await Self.foldWithinAMinute(log) == false)

            let versions = try await log.lines(Self.versions)
            #expect(await log.projector.foldAllStreams() == false)
            #expect(try await log.lines(Self.versions) == versions)
        }
    }

    // MARK: - Support

    private static func state(_ products: [ConfiguredProduct], _ database: ConnectionConfiguration) async throws {
        let connection = try await TestCluster.connect(database.with(role: "subledger_products"))
        try await ProductTable.state(products, on: connection)
        await connection.close()
    }

    /// Folds until the rows have the configured products: after rows were rewritten, events have the stream for as long as that
    /// took. Also false if it does not finish in time.
    private static func foldWithinAMinute(_ log: SimulatedLog) async -> Bool {
        await withTaskGroup(of: Bool?.self) { group in
            group.addTask {
                while !Task.isCancelled {
                    guard await log.projector.foldAllStreams() else { return false }
                    if (try? await log.lines(texts)) == ["true"] { return true }
                    try? await Task.sleep(for: .milliseconds(20))
                }
                return false
            }
            group.addTask {
                try? await Task.sleep(for: .seconds(60))
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first ?? false
        }
    }

    /// The finding of `verify`, if any.
    private static func finding(_ database: ConnectionConfiguration) async throws -> String? {
        let connection = try await TestCluster.connect(database.with(role: "subledger_projector"))
        let audit = try await ProjectionAudit(connection: connection, seed: 1)
        var finding: String?
        do {
            _ = try await audit.check(stream: 1, .all) { _, _ in }
        } catch let problem as ProjectionAudit.Problem {
            finding = "\(problem)"
        }
        await connection.close()
        return finding
    }
}
