import Postgres
import Subscriptions

extension Row {
    /// The customer key in two adjacent columns, its kind and its id; nil if this release does not know the kind.
    ///
    /// - Parameter column: The column of the kind.
    package func customerKey(at column: Int) throws(PostgresError) -> CustomerKey? {
        let kind: String = try value(at: column)
        let id: String = try value(at: column + 1)
        return CustomerKey.Kind(rawValue: kind).map { CustomerKey($0, id) }
    }

    /// What a customer link rests on.
    package func linkBasis(at column: Int) throws(PostgresError) -> LinkStatement.Basis {
        guard let basis = LinkStatement.Basis(rawValue: try value(at: column)) else { throw PostgresError(.decoding) }
        return basis
    }
}
