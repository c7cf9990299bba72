/// A statement with its parameters, as one part of a transaction that travels in a single round trip.
package struct Step: Sendable {
    let statement: Statement
    let parameters: [Parameter]

    package init(_ statement: Statement, _ parameters: [Parameter] = []) {
        self.statement = statement
        self.parameters = parameters
    }
}
