/// A server type by its fixed OIDs in the catalogue: its own and that of its array type.
///
/// Source: PostgreSQL, `src/include/catalog/pg_type.dat`.
package struct PostgresType: Sendable, Hashable {
    package let oid: UInt32
    package let arrayOID: UInt32

    package static let bool = PostgresType(oid: 16, arrayOID: 1000)
    package static let bytea = PostgresType(oid: 17, arrayOID: 1001)
    package static let int8 = PostgresType(oid: 20, arrayOID: 1016)
    package static let int4 = PostgresType(oid: 23, arrayOID: 1007)
    package static let text = PostgresType(oid: 25, arrayOID: 1009)
    package static let timestamptz = PostgresType(oid: 1184, arrayOID: 1185)
    package static let jsonb = PostgresType(oid: 3802, arrayOID: 3807)

    /// OIDs of types that are read as text and never written: `name` (used by the catalogues) and `varchar`.
    static let nameOID: UInt32 = 19
    static let varcharOID: UInt32 = 1043
}
