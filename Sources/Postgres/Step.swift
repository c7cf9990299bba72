/// A statement with its parameters, as one part of a transaction that travels in a single round trip.
package struct Step: Sendable {
    let statement: Statement
    let parameters: [Parameter]
    /// What a `copy … from stdin (format binary)` takes in; such a step travels alone.
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
