import Postgres
import Subscriptions

extension Row {
    /// A key from the columns of its kind and its id; nil for a kind that a newer version knows.
    package func customerKey(at column: Int) throws(PostgresError) -> CustomerKey? {
        let kind: String = try value(at: column)
        let id: String = try value(at: column + 1)
        return CustomerKey.Kind(rawValue: kind).map { CustomerKey($0, id) }
    }
}
