/// SQL known at compile time, prepared once per connection under its name.
///
/// Statements of the same name must have the same SQL: the server rejects the second one on a connection that has
/// prepared the first (SQLSTATE 42P05).
package struct Statement: Sendable, Hashable {
    let name: String
    package let sql: String

    package init(_ name: SQL, _ sql: SQL) {
        self.name = name.text
        self.sql = sql.text
    }

    /// The name is enough, and much shorter.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(name)
    }
}
