import Foundation
import Postgres
import TestSupport

/// How long each view of the analysts takes over all that was folded, as their role and with their role's settings. All
/// columns and rows are worked out, and none is sent.
struct ViewTimes {
    let database: ConnectionConfiguration

    func measure() async throws {
        let owner = try await TestCluster.connect(database)
        // As autovacuum would have by then.
        try await owner.script("vacuum analyze", deadline: .now + .seconds(600))
        let names = try await owner.query(Self.names, deadline: .now + .seconds(20))
        await owner.close()
        let analyst = try await TestCluster.connect(database.with(role: "subledger_analyst"))
        try await analyst.script(
            "set jit = off; set work_mem = '64MB'; set default_transaction_read_only = on",
            deadline: .now + .seconds(20))
        print("view                             s   database s")
        for row in names {
            let name: String = try row.value(at: 0)
            let usage = try await ProcessorTime.now()
            let start = ContinuousClock.now
            try await analyst.script(
                "explain (analyze, timing off) select * from analyst.\(name)", deadline: .now + .seconds(600))
            let time = (ContinuousClock.now - start).seconds
            let used = try await ProcessorTime.now() - usage
            print(
                name.padding(toLength: 28, withPad: " ", startingAt: 0)
                    + String(format: "%6.2f %12.2f", time, used.database))
        }
        await analyst.close()
    }

    private static let names = Statement(
        "view_names",
        """
        select viewname
        from pg_views
        where schemaname = 'analyst'
        order by viewname
        """)
}
