import Logging
import Metrics
import Postgres
import Subscriptions

/// A product whose purchases do not count as they should until its configuration says more.
package struct UnconfiguredProduct: Sendable, Hashable {
    package let app: String
    package let environment: String
    package let productId: String
    package let gap: ConfigurationGap
    package let purchases: Int64
}

/// What the configuration of a product does not say.
struct ProductGap: Sendable, Hashable {
    let productId: String
    let gap: ConfigurationGap
}

/// Finds products whose purchases need what their configuration does not say. It reads the database at regular intervals,
/// so the rows of other projectors count too, and as soon as this projector has written a purchase of another such product.
actor GapWatch {
    private let pool: PostgresPool
    private let pause: Duration
    private let logger: Logger
    private let gauge = Gauge(label: "subledger_products_unconfigured")
    private(set) var products: [UnconfiguredProduct] = []
    private let (occasions, occasion) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    init(pool: PostgresPool, pause: Duration = Limits.gapPause, logger: Logger) {
        self.pool = pool
        self.pause = pause
        self.logger = logger
        gauge.record(0)
    }

    /// Looks at regular intervals, and when it is told about another product, until its task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [occasion, pause] in
                while !Task.isCancelled {
                    occasion.yield()
                    try? await Task.sleep(for: pause)
                }
            }
            for await _ in occasions { await look() }
            group.cancelAll()
        }
    }

    /// Looks soon unless the products with a gap are known. Call it after their purchases were committed.
    func note(app: String, environment: String, _ gaps: Set<ProductGap>) {
        guard products.count < Limits.gapProductsMax else { return }
        let known = products.filter { $0.app == app && $0.environment == environment }
            .map { ProductGap(productId: $0.productId, gap: $0.gap) }
        if !gaps.isSubset(of: known) { occasion.yield() }
    }

    /// A failure keeps what was found last: the projector reports that the database fails.
    func look() async {
        do throws(PostgresError) {
            let rows = try await pool.query(
                GapStatements.products, [Parameter(Limits.gapProductsMax)], deadline: .now + Limits.readWaitMax)
            var found: [UnconfiguredProduct] = []
            for row in rows {
                let name: String = try row.value(at: 3)
                guard let gap = ConfigurationGap(rawValue: name) else { continue }
                found.append(
                    UnconfiguredProduct(
                        app: try row.value(at: 0), environment: try row.value(at: 1), productId: try row.value(at: 2),
                        gap: gap, purchases: try row.value(at: 4)))
            }
            for product in found where !products.contains(where: { $0.isSame(as: product) }) { report(product) }
            products = found
            gauge.record(found.count)
        } catch {
            return
        }
    }

    private func report(_ product: UnconfiguredProduct) {
        logger.warning(
            "product not configured",
            metadata: [
                "app": "\(product.app)", "environment": "\(product.environment)", "product.id": "\(product.productId)",
                "gap": "\(product.gap.rawValue)", "purchases": "\(product.purchases)",
            ])
    }
}

extension UnconfiguredProduct {
    fileprivate func isSame(as other: UnconfiguredProduct) -> Bool {
        (app, environment, productId, gap) == (other.app, other.environment, other.productId, other.gap)
    }
}

enum GapStatements {
    /// The products with a gap, those with most purchases first.
    static let products = Statement(
        "gap_products",
        """
        select stream.app, stream.environment, coalesce(transaction.product_id, ''), transaction.gap, count(*)
        from subledger.transaction
        join subledger.stream using (stream_id)
        where transaction.gap is not null
        group by 1, 2, 3, 4
        order by count(*) desc, 1, 2, 3, 4
        limit $1
        """)
}
