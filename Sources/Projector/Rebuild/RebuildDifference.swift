import Encoding
import Subscriptions

/// A row, or a field of one, that a rebuild with this release would change.
package struct RebuildDifference: Sendable, Hashable {
    package enum Change: String, Sendable {
        case changed, added, removed
    }

    package let app: String
    package let environment: String
    /// Nil for a row about no subscription.
    package let originalTransactionId: String?
    package let table: String
    /// The key of the row within its subscription; nil if there is only one row.
    package let row: String?
    package let change: Change
    /// The column; nil if the row as a whole is added or removed, or if only the form in which it is stored differs.
    package let field: String?
    /// Nil for facts, which are whole histories.
    package let live: String?
    package let rebuilt: String?
    /// The rules that the fold of this release applied to the purchase of the row.
    package let because: [Explanation.Reason]

    /// One JSON object on one line.
    package var json: String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("environment", environment)
            writer.member("originalTransactionId", originalTransactionId)
            writer.member("table", table)
            writer.member("row", row)
            writer.member("change", change.rawValue)
            writer.member("field", field)
            writer.member("live", live)
            writer.member("rebuilt", rebuilt)
            writer.key("because")
            writer.array(because) { $1.write(to: &$0) }
        }
        return writer.text
    }
}
