/// A set of projection tables, identified by its schema. The same code writes all of them.
enum ProjectionTables: String, Sendable {
    /// The tables that readers see.
    case live = "subledger"
    /// The tables into which a rebuild folds the log.
    case rebuild = "subledger_rebuild"
    /// Temporary tables of a session, for comparisons; they are emptied after each transaction.
    case temporary = "pg_temp"
}
