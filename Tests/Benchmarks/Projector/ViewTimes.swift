import Foundation
import Postgres
import TestSupport

/// Measures each analyst view over all projections, with the role and the settings of analysts. All rows and columns are
/// computed, and none are sent.
struct ViewTimes {
    let database: ConnectionConfiguration

    func measure() async throws {
        let owner = try await TestCluster.connect(database)
        // Autovacuum would have done this on a running server.
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
            let time = (ContinuousClock.now - start).inSeconds
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
