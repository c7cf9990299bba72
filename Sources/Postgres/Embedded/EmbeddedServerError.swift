/// The reason why the embedded server does not run, as one line for an operator: what failed, where, and what to do.
package struct EmbeddedServerError: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
