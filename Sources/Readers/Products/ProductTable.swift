import Postgres
import Subscriptions

/// The configured products, as the database stores them.
///
/// Changes take effect without a restart: entitlements at the next read, kinds and durations once the projector has
/// recomputed the app's subscriptions.
package enum ProductTable {
    /// The configured products, in order of bundle and product ids.
    ///
    /// - Parameters:
    ///   - app: Only this app's products; nil for all.
    ///   - connection: Has the rights of a reader.
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
                    duration: try row.optional(at: 3), level: try row.optional(Int32.self, at: 5).map { Int($0) },
                    name: try row.optional(at: 6),
                    entitlements: try row.array(of: String.self, at: 4).compactMap { $0 }))
        }
        return products
    }

    /// Sets all properties of these products, and leaves other products as they are. Atomic; durable when this returns;
    /// safe to repeat.
    ///
    /// - Parameters:
    ///   - products: No product twice.
    ///   - connection: Has the rights of `subledger_products`.
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
                    [
                        apps, ids, .array(products.map(\.kind)), .array(products.map(\.duration)),
                        .array(products.map { $0.level.map { Int32(clamping: $0) } }),
                        .array(products.map(\.name)),
                    ]),
                Step(ProductStatements.clearEntitlements, [apps, ids]),
                Step(
                    ProductStatements.stateEntitlements,
                    [.array(given.map(\.0.app)), .array(given.map(\.0.productId)), .array(given.map(\.1))]),
            ], deadline: .now + Limits.statementWaitMax)
    }

    /// Removes a product's settings. Its kind then follows from its transactions, and it grants its own id.
    ///
    /// - Returns: False if the product has no settings.
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
