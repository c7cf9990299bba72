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
        do throws(PostgresError) {
            return try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
                (connection) async throws(PostgresError) -> [ConfiguredProduct] in
                try await ProductTable.products(of: app, on: connection)
            }
        } catch {
            throw ReadError(error)
        }
    }

    /// See ``ProductTable/state(_:on:)``.
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
