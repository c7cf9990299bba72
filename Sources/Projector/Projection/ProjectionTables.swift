/// A set of projection tables, by the schema that holds it. One code writes them all.
enum ProjectionTables: String, Sendable {
    /// What readers see.
    case live = "subledger"
    /// Where a rebuild folds the log anew.
    case rebuild = "subledger_rebuild"
    /// A session's own, for comparing; they are empty again after each transaction.
    case temporary = "pg_temp"
}
