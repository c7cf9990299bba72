import HTTPServer
import Metrics
import Postgres

/// What an operator sees of the pools of database connections, at the time of a scrape.
///
/// Several pools of one role are counted together, under the application name that PostgreSQL shows, less `subledger`.
struct PoolMetrics: Sendable {
    private let pools: [String: [PostgresPool]]

    init(_ pools: [PostgresPool]) {
        self.pools = Dictionary(grouping: pools) { pool in
            pool.name.hasPrefix("subledger ") ? String(pool.name.dropFirst("subledger ".count)) : pool.name
        }
    }

    func add(to metrics: MetricsRegistry) {
        metrics.beforeScrape { await update() }
    }

    private func update() async {
        for (name, pools) in pools {
            var (borrowed, idle, waiting) = (0, 0, 0)
            for pool in pools {
                let counts = await pool.counts
                borrowed += counts.open - counts.idle
                idle += counts.idle
                waiting += counts.waiting
            }
            let pool = ("pool", name)
            Self.connections(pool, "borrowed").record(borrowed)
            Self.connections(pool, "idle").record(idle)
            Gauge(label: "subledger_database_connections_max", dimensions: [pool])
                .record(pools.reduce(0) { $0 + $1.limit })
            Gauge(label: "subledger_database_waiting_calls", dimensions: [pool]).record(waiting)
        }
    }

    private static func connections(_ pool: (String, String), _ state: String) -> Gauge {
        Gauge(label: "subledger_database_connections", dimensions: [pool, ("state", state)])
    }
}
