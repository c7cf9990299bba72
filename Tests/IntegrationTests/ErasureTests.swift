import Encoding
import EventLog
import Foundation
import Postgres
import Projector
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("An erased person is named nowhere, and the log still proves everything else")
struct ErasureTests {
    /// A log of both stores, with links, hand-ins and answers.
    private struct Ledger {
        let database: SharedDatabase
        let log: SimulatedLog
        let root: String

        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            let app = ["SUBLEDGER_APP_BUNDLE_ID": Self.app, "SUBLEDGER_APP_SHARED_SECRET": V1Body.secret]
            return try ServerProcess.run(
                arguments, environment: database.environment().merging(app) { $1 }, limit: 120)
        }

        func erase(
            _ id: String, as kind: String, of app: String = Self.app, _ more: String...
        ) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                ["erase", "--app", app, "--customer", id, "--as", kind, "--reason", "a request by mail"] + more,
                environment: database.environment(), limit: 120)
        }

        /// What `subledger verify` prints.
        func verify(_ more: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                ["verify", "--all", "--root", root] + more, environment: database.environment(), limit: 120)
        }

        static let app = "com.example.app"

        /// Rows of a query, with parameters of their own.
        func rows(_ sql: SQL, _ parameters: [Parameter] = []) async throws -> [String] {
            let connection = try await TestCluster.connect(log.database)
            let rows = try await connection.query(
                Statement("erasure_test_rows", sql), parameters, deadline: .now + .seconds(60))
            let lines: [String] = try rows.map { try $0.value(at: 0) }
            await connection.close()
            return lines
        }

        /// Everything about access, without the names of customers and subscriptions.
        func access() async throws -> [String] {
            try await rows(
                """
                select concat_ws(' ', app, environment, known_as, entitlement, active, until, positions)
                from subledger.entitlement
                order by 1
                """)
        }

        /// Everything about access of all customers who are not called by a pseudonym, and not by the ids.
        func access(without ids: [String]) async throws -> [String] {
            try await rows(
                """
                select concat_ws(' ', app, environment, customer, known_as, owner_kind, owner_id, entitlement, active,
                  until, positions)
                from subledger.entitlement
                where owner_id <> all ($1::text[])
                  and owner_id not like 'erased-%'
                order by 1
                """, [.array(ids)])
        }

        /// The tables and bodies in which one of the texts stands.
        func places(of texts: [String]) async throws -> [String] {
            let connection = try await TestCluster.connect(log.database)
            var places: [String] = []
            let tables = try await connection.query(
                Statement(
                    "erasure_test_tables",
                    """
                    select relname::text
                    from pg_class
                    where relnamespace = 'subledger'::regnamespace
                      and relkind in ('r', 'p')
                      and not relispartition
                    order by 1
                    """), deadline: .now + .seconds(20))
            for table in tables {
                let name: String = try table.value(at: 0)
                let quoted = texts.map { "'" + $0.replacing("'", with: "''") + "'" }.joined(separator: ", ")
                do {
                    try await connection.script(
                        """
                        do $check$
                        begin
                          if exists (
                            select from subledger.\(name) as line, unnest(array[\(quoted)]) as wanted (text)
                            where position(wanted.text in line::text) > 0
                          ) then
                            raise exception 'found';
                          end if;
                        end
                        $check$
                        """, deadline: .now + .seconds(60))
                } catch {
                    places.append(name)
                }
            }
            let bodies = try await connection.query(
                Statement(
                    "erasure_test_bodies",
                    "select position, subledger.event_body(stream_id, position) from subledger.event"),
                deadline: .now + .seconds(60))
            for row in bodies {
                let text = ErasedText.opened(String(decoding: try row.value([UInt8].self, at: 1), as: UTF8.self))
                if texts.contains(where: { text.contains($0) }) {
                    places.append("body of \(try row.value(Int64.self, at: 0))")
                }
            }
            await connection.close()
            return places
        }
    }

    /// A database in which both stores told all their stories.
    private static func simulated() async throws -> SharedDatabase {
        let database = try await SharedDatabase.make()
        let url = try #require(database.environment()["SUBLEDGER_DATABASE_URL"])
        let run = try ServerProcess.simulate(
            [
                "--in-step", "--store", "both", "--format", "both", "--environment", "production", "--apple-id",
                "1234567890", "--seed", "20180525", "--subscriptions", "36", "--lose", "0.2", "--duplicate", "0.1",
                "--database-url", url,
            ], limit: 300)
        try #require(run.status == 0, "\(run.output)\(run.error)")
        return database
    }

    /// Made once, since the stories take most of the time of these tests.
    private static let stories = Task { try await simulated() }

    private static func withLedger(_ test: (Ledger) async throws -> Void) async throws {
        let database = CitusCluster.isWanted ? try await simulated() : try await stories.value.clone()
        let root = TestFolder.path("root") + ".pem"
        defer { try? FileManager.default.removeItem(atPath: root) }
        try TestCertificates.standard.rootPEM.write(toFile: root, atomically: true, encoding: .utf8)
        try await SimulatedLog.with(database: database.configuration) { log in
            try await test(Ledger(database: database, log: log, root: root))
        }
        try await database.drop()
    }

    /// A customer of each kind and store who has most ids, as `kind id`, with all these ids.
    private static func people(_ ledger: Ledger) async throws -> [(kind: String, id: String, ids: [String])] {
        let lines = try await ledger.rows(
            """
            select distinct on (customer_kind, is_of_google) customer_kind || ' ' || customer_id || ' ' || ids
            from (
              select customer_kind, customer_id, count(*) as number,
                -- Apple's numbers of subscriptions stay.
                coalesce(string_agg(distinct id, ' ') filter (where kind <> 'subscription' or id !~ '^[0-9]+$'), '') as ids,
                bool_or(kind = 'subscription' and id !~ '^[0-9]+$') as is_of_google
              from subledger.customer_identity
              where ends_at = 'infinity'
              group by customer_kind, customer_id
            ) as customer
            where customer_kind <> 'subscription'
            order by customer_kind, is_of_google, number desc, customer_id
            """)
        return lines.map { line in
            let words = line.split(separator: " ").map(String.init)
            return (words[0], words[1], Array(Set(words.dropFirst())))
        }
    }

    @Test("no table and no body names the person; access, chain, heads, a rebuild and all others are as before")
    func erased() async throws {
        try await Self.withLedger { ledger in
            let people = try await Self.people(ledger)
            try #require(people.count >= 3, "\(people)")
            let all = people.flatMap(\.ids)
            // What operators gave by hand names a person, too.
            let entitlement = try await ledger.rows("select min(entitlement) from subledger.product_entitlement")[0]
            for person in people where person.kind == "link" {
                let granted = try ledger.run(
                    "grant", "--app", Ledger.app, "--customer", person.id, "--entitlement", entitlement, "--days", "30",
                    "--reason", "for \(person.id)")
                try #require(granted.status == 0, "\(granted.error)")
            }
            await ledger.log.projector.foldAllStreams()
            let others = try await ledger.access(without: people.map(\.id))
            let access = try await ledger.access()
            let head = TestFolder.path("head")
            let key = TestFolder.path("head-key") + ".pem"
            defer {
                try? FileManager.default.removeItem(atPath: head)
                try? FileManager.default.removeItem(atPath: key)
            }
            let signed = try ledger.run("head", "--head-key", key)
            try #require(signed.status == 0, "\(signed.error)")
            try signed.output.write(toFile: head, atomically: true, encoding: .utf8)
            #expect(try ledger.verify().status == 0)
            #expect(try await !ledger.places(of: all).isEmpty)

            for person in people {
                // The apps share no customers, so each is asked for.
                var lines: [Substring] = []
                for app in [Ledger.app, Ledger.app + ".android"] {
                    let outcome = try ledger.erase(person.id, as: person.kind, of: app, "--yes")
                    lines += outcome.output.split(separator: "\n")
                    let isUnknown = outcome.status == 65 && outcome.error.contains("nobody is known by this id")
                    #expect(outcome.status == 0 || isUnknown, "\(person) \(outcome.error)")
                }
                let line = try #require(lines.last)
                let json = try JSONDocument(Array(line.utf8)).root
                #expect(json.string("pseudonym")?.hasPrefix("erased-") == true)
                let places = try await ledger.places(of: person.ids)
                #expect(places == [], "\(person)")
                await ledger.log.projector.foldAllStreams()
                let again = try ledger.erase(person.id, as: person.kind, "--yes")
                #expect(again.status == 65 && again.error.contains("nobody is known by this id"), "\(again)")
            }

            await ledger.log.projector.foldAllStreams()
            #expect(try await ledger.places(of: all) == [])
            #expect(try await ledger.access() == access)
            #expect(try await ledger.access(without: people.map(\.id)) == others)
            let verified = try ledger.verify("--head", head, "--head-key", key)
            #expect(verified.status == 0, "\(verified.output.prefix(2000))")
            #expect(verified.output.contains(/events \d+ \([1-9]\d* erased\)/), "\(verified.output)")
            let differences = try ledger.run("rebuild", "--diff")
            #expect(differences.status == 0, "\(differences.output.prefix(3000))\(differences.error)")
            // Nothing is asked about the erased until a store says something by itself.
            #expect(
                try await ledger.rows(
                    """
                    select check_schedule.original_transaction_id
                    from subledger.check_schedule
                    join subledger.ownership using (stream_id, original_transaction_id)
                    where ownership.customer_id like 'erased-%'
                    """) == [])
            // Whoever follows the changes learns of each.
            #expect(
                try await ledger.rows(
                    """
                    select customer_id
                    from subledger.change
                    where kind = 'customer_erased'
                    """
                ).allSatisfy { $0.hasPrefix("erased-") })

            // A body that nobody erased is lost.
            let kept = try await ledger.rows(
                """
                select max(position)::text
                from subledger.event
                join subledger.event_body using (stream_id, position, received_at)
                where octet_length(body) > 0 and stream_id = 2 and source <> 'operator'
                """)[0]
            try await ledger.log.damage(
                "update subledger.event_body set body = '' where stream_id = 2 and position = \(kept)")
            let lost = try ledger.verify()
            #expect(lost.status == 1)
            let findings = lost.output.split(separator: "\n").filter { $0.contains(" position ") }
            #expect(findings.count == 1, "\(lost.output.prefix(2000))")
            #expect(
                findings.first?.contains("position \(kept): body is missing, and no erasure in the log says so") == true
            )
        }
    }

    /// The stores' own ids of the subscriptions that a customer owns in both apps, of orders without the number of a renewal.
    private static func storeIds(_ ledger: Ledger, _ person: (kind: String, id: String)) async throws -> [String] {
        try await ledger.rows(
            """
            select distinct split_part(split_part(store.id, '..', 1), ':', 1)
            from subledger.ownership
            join subledger.stream using (stream_id)
            join subledger.transaction using (stream_id, original_transaction_id)
            cross join unnest(array[original_transaction_id, transaction_id, web_order_line_item_id]) as store (id)
            where environment = 'production'
              and customer_kind = $1
              and customer_id = $2
              and store.id is not null
            """, [Parameter(person.kind), Parameter(person.id)])
    }

    @Test("with --transactions, nothing has the stores' own ids of the person; figures and proofs are as before")
    func transactions() async throws {
        try await Self.withLedger { ledger in
            let apps = [Ledger.app, Ledger.app + ".android"]
            // Whoever shares a subscription with another customer is refused, and says so.
            var people: [(kind: String, id: String, ids: [String])] = []
            var refused = 0
            for line in try await ledger.rows(
                """
                select customer_kind || ' ' || customer_id
                from subledger.ownership
                where customer_kind <> 'subscription'
                group by customer_kind, customer_id
                order by count(distinct stream_id) desc, customer_kind desc, count(*) desc, customer_id
                """)
            {
                let words = line.split(separator: " ").map(String.init)
                let shown = try apps.map { app in
                    try ledger.erase(words[1], as: words[0], of: app, "--transactions", "--dry-run")
                }
                if shown.contains(where: { $0.error.contains("--transactions is not possible") }) {
                    refused += 1
                    continue
                }
                let isCounted = shown.map { $0.error.contains(/ids of the stores to replace: [1-9]/) }.contains(true)
                #expect(isCounted, "\(line): \(shown.map(\.error))")
                people.append((words[0], words[1], try await Self.storeIds(ledger, (words[0], words[1]))))
                if people.count == 4 { break }
            }
            try #require(people.count == 4, "\(people), refused \(refused)")
            let all = people.flatMap { $0.ids + [$0.id] }
            let order = try #require(all.first { $0.hasPrefix("GPA.") })
            _ = try await ledger.rows(
                """
                insert into subledger.store_report_row (name, sha256, line, day, event, app, order_id, fields)
                values ('sales', sha256(''), 1, '2026-01-01', 'sale', $1, $2, jsonb_build_object('Order Number', $2))
                returning name
                """, [Parameter(apps[1]), Parameter(order)])
            let digests: SQL = """
                select encode(subscription_sha256, 'hex')
                from subledger.subscription_head
                where subscription_sha256 in (
                  select subledger.subscription_sha256(id) from unnest($1::text[]) as store (id)
                )
                """
            let fingerprints: SQL = """
                select encode(fingerprint, 'hex')
                from subledger.event
                where fingerprint is not null
                """
            let figures: SQL = """
                select concat_ws(' ', day, app, store, product_id, country, currency, offer_type, payments, gross, refunded)
                from analyst.revenue
                order by 1
                """
            #expect(try await !ledger.rows(digests, [.array(all)]).isEmpty)
            let before = (
                access: try await ledger.access(), figures: try await ledger.rows(figures),
                fingerprints: try await ledger.rows(fingerprints)
            )
            let head = TestFolder.path("head")
            let key = TestFolder.path("head-key") + ".pem"
            defer {
                try? FileManager.default.removeItem(atPath: head)
                try? FileManager.default.removeItem(atPath: key)
            }
            let signed = try ledger.run("head", "--head-key", key)
            try #require(signed.status == 0, "\(signed.error)")
            try signed.output.write(toFile: head, atomically: true, encoding: .utf8)

            for person in people {
                for app in apps {
                    let outcome = try ledger.erase(person.id, as: person.kind, of: app, "--transactions", "--yes")
                    let isUnknown = outcome.status == 65 && outcome.error.contains("nobody is known by this id")
                    #expect(outcome.status == 0 || isUnknown, "\(person) \(outcome.error)")
                }
                #expect(try await ledger.places(of: person.ids + [person.id]) == [], "\(person)")
                await ledger.log.projector.foldAllStreams()
            }

            #expect(try await ledger.places(of: all) == [])
            #expect(try await ledger.rows(digests, [.array(all)]) == [])
            let fingerprinted = try await ledger.rows(fingerprints)
            #expect(fingerprinted.count == before.fingerprints.count)
            #expect(Set(fingerprinted).count == Set(before.fingerprints).count)
            #expect(Set(fingerprinted) != Set(before.fingerprints))
            #expect(try await ledger.access() == before.access)
            #expect(try await ledger.rows(figures) == before.figures)
            let verified = try ledger.verify("--head", head, "--head-key", key)
            #expect(verified.status == 0, "\(verified.output.prefix(2000))")
            #expect(verified.output.contains(/events \d+ \([1-9]\d* erased\)/), "\(verified.output)")
            let differences = try ledger.run("rebuild", "--diff")
            #expect(differences.status == 0, "\(differences.output.prefix(3000))\(differences.error)")
        }
    }

    @Test("without --yes nothing happens; every role may still only append")
    func asked() async throws {
        let database = try await SharedDatabase.make()
        try await SimulatedLog.with(database: database.configuration) { log in
            try await log.append(try await SimulatedLog.deliveries(subscriptions: 4))
            await log.projector.foldAllStreams()
            let id = try await log.lines(
                "select id from subledger.customer_identity where kind = 'account' order by 1 limit 1")
            let before = try await log.lines(
                "select md5(string_agg(event::text, '' order by position)) from subledger.event event")
            func erase(_ more: String...) throws -> (status: Int32, output: String, error: String) {
                try ServerProcess.run(
                    ["erase", "--app", V1Body.app, "--as", "account", "--environment", "sandbox"] + more,
                    environment: database.environment())
            }

            let asked = try erase("--customer", id[0], "--reason", "mail")
            let shown = try erase("--customer", id[0], "--reason", "mail", "--dry-run")
            let named = try erase("--customer", id[0], "--reason", "mail of \(id[0])")
            let nobody = try erase("--customer", "nobody", "--reason", "mail", "--yes")

            #expect(asked.status == 64 && asked.error.contains("nothing was erased: repeat the command with --yes"))
            #expect(shown.status == 0 && shown.output == "")
            #expect(shown.error.contains(/bodies to remove: \d+, subscriptions: \d+, ids to replace: 1 account/))
            #expect(named.status == 64 && named.error.contains("--reason names the person: it stays in the log."))
            #expect(nobody.status == 65 && nobody.error.contains("nobody is known by this id"))
            #expect(
                try await log.lines(
                    "select md5(string_agg(event::text, '' order by position)) from subledger.event event")
                    == before)
            // The setting alone permits nothing: no role has the right.
            for role in ["receiver", "projector", "poller", "reader", "analyst", "products"] {
                await #expect(throws: PostgresError.self) {
                    let connection = try await TestCluster.connect(log.database.with(role: "subledger_\(role)"))
                    try await connection.script(
                        """
                        begin;
                        select set_config('subledger.erasing', pg_current_xact_id()::text, true);
                        update subledger.event_body set body = '';
                        commit
                        """, deadline: .now + .seconds(20))
                    await connection.close()
                }
            }
        }
        try await database.drop()
    }
}
