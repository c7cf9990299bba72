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

/// Finds products whose purchases need what their configuration does not say. It reads the database at regular intervals,
/// so the rows of other projectors count too.
actor GapWatch {
    private let pool: PostgresPool
    private let logger: Logger
    private let gauge = Gauge(label: "subledger_products_unconfigured")
    private(set) var products: [UnconfiguredProduct] = []

    init(pool: PostgresPool, logger: Logger) {
        self.pool = pool
        self.logger = logger
        gauge.record(0)
    }

    /// Looks at regular intervals until its task is cancelled.
    func run() async {
        while !Task.isCancelled {
            await look()
            try? await Task.sleep(for: Limits.gapPause)
        }
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
