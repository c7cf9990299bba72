import Foundation
import Postgres
import TestSupport

/// Sessions of reading roles that hold what they can: locks, listeners, snapshots, and the processor.
///
/// The queue of NOTIFY is filled by some megabytes only, unless all of it is to be: a full one has eight gigabytes.
struct HostileReaders: Sendable {
    let database: StormDatabase
    let report: StormReport
    let fillsQueue: Bool

    private enum Limits {
        static let holding = Duration.seconds(20)
        /// Almost as long as the private PostgreSQL permits.
        static let longHolding = Duration.seconds(290)
        static let pause = Duration.milliseconds(500)
        static let statement = Duration.seconds(30)
        /// PostgreSQL's SQLSTATE for a queue that has no room.
        static let queueFull = "54000"
    }

    private struct Held {
        let role: String
        let what: String
        /// What the session does before it waits, in an open transaction.
        let sql: String
        /// What it listens to. `listen` counts from the end of its own transaction on.
        var listens: String?
        var time = Limits.holding
    }

    private static let held = [
        Held(
            role: "subledger_reader", what: "locks all tables against changes of the schema",
            sql: """
                do $$
                declare
                  name text;
                begin
                  for name in
                    select relname from pg_class
                    where relnamespace = 'subledger'::regnamespace
                      and relkind in ('r', 'p')
                      and has_table_privilege(oid, 'select')
                  loop
                    execute format('lock table subledger.%I in access share mode', name);
                  end loop;
                end
                $$
                """
        ),
        Held(
            role: "subledger_analyst", what: "holds advisory locks",
            sql: "select count(pg_advisory_lock(number)) from generate_series(1, 2000) as number"
        ),
        Held(
            role: "subledger_reader", what: "keeps an old snapshot",
            sql: "set transaction isolation level repeatable read; select count(*) from subledger.event"
        ),
        Held(
            role: "subledger_analyst", what: "keeps an old snapshot for minutes",
            sql: "set transaction isolation level repeatable read; select count(*) from subledger.stream_head",
            time: Limits.longHolding
        ),
        Held(
            role: "subledger_reader", what: "listens and never reads",
            sql: "select 1", listens: "listen subledger_event; listen subledger_change"
        ),
        Held(
            role: "subledger_reader", what: "fills the queue of notifications",
            sql:
                "commit; select count(pg_notify('hostile', repeat(number::text, 1900))) from generate_series(1, 2000) as number; begin"
        ),
        Held(
            role: "subledger_analyst", what: "computes",
            sql: "select count(*) from generate_series(1, 3000000) as one where md5(one::text) < '1'"
        ),
    ]

    /// What no reading role may do.
    private static let refused = [
        "lock table subledger.stream_head in row exclusive mode", "select from subledger.stream_head for key share",
        "select from subledger.lease for update", "select from subledger.turn for update",
        "select from subledger.checkpoint for share", "lock table subledger.google_purchase in exclusive mode",
    ]

    /// Runs until its task is cancelled.
    func run() async {
        await checkRefusals()
        await withTaskGroup(of: Void.self) { group in
            for held in Self.held {
                group.addTask {
                    report.log("hostile: \(held.role) \(held.what)")
                    while !Task.isCancelled { await hold(held) }
                }
            }
            if fillsQueue { group.addTask { await fillQueue() } }
        }
    }

    /// Fills the queue and keeps it full: a session that listens in a transaction reads nothing, so nothing leaves the queue.
    private func fillQueue() async {
        guard let listener = try? await connect("subledger_reader"), let filler = try? await connect("subledger_reader")
        else { return report.problem("no sessions that could fill the queue of notifications") }
        for sql in ["listen hostile", "begin; select 1"] {
            try? await listener.script(sql, deadline: .now + Limits.statement)
        }
        let start = ContinuousClock.now
        var isFull = false
        while !Task.isCancelled {
            do {
                try await filler.script(
                    """
                    select count(pg_notify('hostile', number || repeat('x', 7900)))
                    from generate_series(1, 2000) as number
                    """, deadline: .now + Limits.statement)
            } catch {
                guard error.sqlstate == Limits.queueFull else {
                    report.problem("the queue of notifications was not filled: \(error)")
                    break
                }
                if !isFull { report.log("hostile: the queue is full after \(ContinuousClock.now - start)") }
                isFull = true
                try? await Task.sleep(for: Limits.pause)
            }
        }
        if !isFull { report.problem("the queue of notifications did not become full") }
        await filler.close()
        await listener.close()
    }

    private func connect(_ role: String) async throws -> PostgresConnection {
        try await PostgresConnection.connect(
            database.server.configuration(database: StormDatabase.name).with(role: role), deadline: .now + .seconds(10))
    }

    private func hold(_ held: Held) async {
        guard let session = try? await connect(held.role) else {
            try? await Task.sleep(for: Limits.pause)
            return
        }
        do {
            if let listens = held.listens { try await session.script(listens, deadline: .now + Limits.statement) }
            try await session.script("begin; \(held.sql)", deadline: .now + Limits.statement)
            try? await Task.sleep(for: held.time)
        } catch {
            // It may be ended by the server, which does no harm.
            try? await Task.sleep(for: Limits.pause)
        }
        await session.close()
    }

    private func checkRefusals() async {
        for role in ["subledger_reader", "subledger_analyst"] {
            for sql in Self.refused {
                guard let session = try? await connect(role) else { continue }
                do {
                    try await session.script(
                        "begin; set transaction_read_only = off; \(sql)", deadline: .now + .seconds(10))
                    report.problem("\(role) may \(sql)")
                } catch {
                    if error.sqlstate != "42501" { report.problem("\(role), \(sql): \(error)") }
                }
                await session.close()
            }
        }
    }
}
