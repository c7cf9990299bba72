/// A statement with its parameters: one part of a transaction that is sent in a single round trip.
package struct Step: Sendable {
    let statement: Statement
    let parameters: [Parameter]
    /// The input of a `copy … from stdin (format binary)`; such a step cannot be part of a batch.
    let rows: CopyRows?

    package init(_ statement: Statement, _ parameters: [Parameter] = []) {
        self.statement = statement
        self.parameters = parameters
        rows = nil
    }

    /// - Parameter statement: A `copy … from stdin (format binary)`.
    package init(_ statement: Statement, copying rows: CopyRows) {
        self.statement = statement
        parameters = []
        self.rows = rows
    }
}
