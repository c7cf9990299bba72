import Postgres
import Subscriptions

/// The products that the owner has configured, as the database has them.
///
/// What is stated here takes effect by itself: entitlements when somebody reads next, kinds and durations when the
/// projector has folded the app's subscriptions anew.
package enum ProductTable {
    /// In the order of bundle and product ids.
    ///
    /// - Parameters:
    ///   - app: Only this app's; nil for all.
    ///   - connection: May do what a reader may do.
    package static func products(
        of app: String?, on connection: PostgresConnection
    ) async throws(PostgresError) -> [ConfiguredProduct] {
        let rows = try await connection.query(
            Step(ProductStatements.list, [Parameter(app)]), deadline: .now + Limits.readWaitMax)
        var products: [ConfiguredProduct] = []
        for row in rows {
            products.append(
                ConfiguredProduct(
                    stored: try row.value(at: 0), productId: try row.value(at: 1), kind: try row.optional(at: 2),
                    duration: try row.optional(at: 3),
                    entitlements: try row.array(of: String.self, at: 4).compactMap { $0 }))
        }
        return products
    }

    /// States these products, each as a whole, and leaves all others as they are. All or nothing; durable when this
    /// returns; safe to repeat.
    ///
    /// - Parameters:
    ///   - products: None of them twice.
    ///   - connection: May do what `subledger_products` may do.
    package static func state(
        _ products: [ConfiguredProduct], on connection: PostgresConnection
    ) async throws(PostgresError) {
        let apps = Parameter.array(products.map(\.app))
        let ids = Parameter.array(products.map(\.productId))
        let given = products.flatMap { product in product.entitlements.map { (product, $0) } }
        _ = try await connection.transaction(
            [
                Step(
                    ProductStatements.state,
                    [apps, ids, .array(products.map(\.kind)), .array(products.map(\.duration))]),
                Step(ProductStatements.clearEntitlements, [apps, ids]),
                Step(
                    ProductStatements.stateEntitlements,
                    [.array(given.map(\.0.app)), .array(given.map(\.0.productId)), .array(given.map(\.1))]),
            ], deadline: .now + Limits.statementWaitMax)
    }

    /// Takes a product away: it is then what its transactions say, and entitles to its own id.
    ///
    /// - Returns: False if it was not there.
    package static func remove(
        _ productId: String, of app: String, on connection: PostgresConnection
    ) async throws(PostgresError) -> Bool {
        let key = [Parameter(app), Parameter(productId)]
        let removed = try await connection.transaction(
            [Step(ProductStatements.remove, key), Step(ProductStatements.removeEntitlements, key)],
            deadline: .now + Limits.statementWaitMax)
        return removed.contains { $0.affectedRows > 0 }
    }
}
