import EventLog
import Postgres

/// What people call products, by their ids. Only products that have a name are in it.
package typealias ProductNames = [String: String]

extension ConsoleReader {
    /// The names of the products of some apps.
    package func productNames(of apps: [String]) async throws(ReadError) -> ProductNames {
        let rows = try await rows(Self.productNames, [.array(apps)])
        return try decoding { () throws(PostgresError) in
            var names: ProductNames = [:]
            for row in rows { names[try row.value(at: 0)] = try row.value(String.self, at: 1) }
            return names
        }
    }

    private static let productNames = Statement(
        "console_product_names",
        """
        select product_id, name
        from subledger.product
        where app = any ($1)
          and name is not null
        """)
}
