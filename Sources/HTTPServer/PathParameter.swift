import Foundation
import Hummingbird

/// Reads a parameter of a request's path, percent signs decoded.
enum PathParameter {
    /// - Throws: ``Query/Malformed`` for what can be no id in the database.
    static func text(_ name: String, _ context: BasicRequestContext) throws(Query.Malformed) -> String {
        guard let text = context.parameters.get(name)?.removingPercentEncoding else {
            throw Query.Malformed(problem: "\(name) must be percent-encoded UTF-8", field: name)
        }
        guard !text.utf8.contains(0) else {
            throw Query.Malformed(problem: "\(name) must not hold a NUL character", field: name)
        }
        return text
    }
}
