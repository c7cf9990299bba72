import EventLog
import Postgres
import Subscriptions

/// The configured products for those who come over HTTP.
package struct ProductStore: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: May do what `subledger_products` may do.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// As ``ProductTable/products(of:on:)``.
    package func products(of app: String) async throws(ReadError) -> [ConfiguredProduct] {
        do throws(PostgresError) {
            return try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
                (connection) async throws(PostgresError) -> [ConfiguredProduct] in
                try await ProductTable.products(of: app, on: connection)
            }
        } catch {
            throw ReadError(error)
        }
    }

    /// As ``ProductTable/state(_:on:)``.
    package func state(_ product: ConfiguredProduct) async throws(ReadError) {
        do throws(PostgresError) {
            try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
                (connection) async throws(PostgresError) -> Void in
                try await ProductTable.state([product], on: connection)
            }
        } catch {
            throw ReadError(error)
        }
    }
}
