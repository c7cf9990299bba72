import EventLog
import Postgres
import Subscriptions

/// Reads and sets configured products for HTTP requests.
package struct ProductStore: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_products`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// See ``ProductTable/products(of:on:)``.
    package func products(of app: String) async throws(ReadError) -> [ConfiguredProduct] {
        try await pool.using(within: Limits.readWaitMax) {
            (connection) async throws(PostgresError) -> [ConfiguredProduct] in
            try await ProductTable.products(of: app, on: connection)
        }
    }

    /// See ``ProductTable/state(_:on:)``.
    package func state(_ product: ConfiguredProduct) async throws(ReadError) {
        try await pool.using(within: Limits.readWaitMax) { (connection) async throws(PostgresError) -> Void in
            try await ProductTable.state([product], on: connection)
        }
    }
}
