import Postgres
import TestSupport

/// Addresses of each page of the console, about random subscriptions of a database.
struct ConsoleURLs {
    /// By page, in the order of the report.
    let all: [(name: String, paths: [String])]

    static let names = [
        "overview", "search", "customer", "customer-known", "subscription", "events", "events-filtered", "event",
        "active", "mrr", "movements", "retention", "rows", "products", "system",
    ]

    private static let subscriptions = 200

    /// - Parameter known: The time of knowledge for pages that ask for one.
    init(database: SharedDatabase, known: String) async throws {
        let stream = "stream=production%3A\(V1Body.app)"
        let owner = try await TestCluster.connect(database.configuration)
        let ids = try await owner.query(
            Self.sample, [Parameter(Int64(Self.subscriptions))], deadline: .now + .seconds(120))
        let head = try await owner.query(Self.head, deadline: .now + .seconds(120))
        await owner.close()
        let last: Int64 = try head[0].value(at: 0)
        var found: [(subscription: String, transaction: String, position: Int64)] = []
        for row in ids { found.append((try row.value(at: 0), try row.value(at: 1), try row.value(at: 2))) }
        guard !found.isEmpty else { throw Unusable() }
        let span = "from=2025-01-01&to=2025-03-31"
        all = [
            ("overview", ["/console?\(stream)"]),
            ("search", found.map { "/console/search?q=\($0.transaction)&\(stream)" }),
            ("customer", found.map { "/console/customers/\($0.subscription)?as=subscription&\(stream)" }),
            (
                "customer-known",
                found.map { "/console/customers/\($0.subscription)?as=subscription&knownAt=\(known)&\(stream)" }
            ),
            ("subscription", found.map { "/console/subscriptions/\($0.subscription)?\(stream)" }),
            ("events", (0..<50).map { "/console/events?after=\(last * Int64($0) / 50)&\(stream)" }),
            (
                "events-filtered",
                (0..<50).map { "/console/events?type=REFUND&after=\(last * Int64($0) / 50)&\(stream)" }
            ),
            ("event", found.map { "/console/events/\($0.position)?\(stream)" }),
            ("active", ["/console/figures/active?\(span)&\(stream)"]),
            ("mrr", ["/console/figures/mrr?\(span)&\(stream)"]),
            ("movements", ["/console/figures/movements?\(span)&\(stream)"]),
            ("retention", ["/console/figures/retention?\(span)&\(stream)"]),
            ("rows", ["/console/figures/active?rows=yes&from=2025-03-01&to=2025-03-01&\(stream)"]),
            ("products", ["/console/products?\(stream)"]),
            ("system", ["/console/system?\(stream)"]),
        ]
    }

    private static let sample = Statement(
        "bench_console_sample",
        """
        select original_transaction_id, transaction_id, event.position
        from (
          select stream_id, original_transaction_id, transaction_id
          from subledger.transaction
          order by random()
          limit $1
        ) as picked
        cross join lateral (
          select position
          from subledger.subscription
          where subscription.stream_id = picked.stream_id
            and subscription.original_transaction_id = picked.original_transaction_id
        ) as event
        """)

    private static let head = Statement("bench_console_head", "select max(position) from subledger.stream_head")
}
