import Foundation
import Hummingbird

/// Reads a percent-decoded parameter of a request's path.
enum PathParameter {
    /// - Throws: ``Query/Malformed`` if the value cannot be an id in the database.
    static func text(_ name: String, _ context: BasicRequestContext) throws(Query.Malformed) -> String {
        guard let text = context.parameters.get(name)?.removingPercentEncoding else {
            throw Query.Malformed(problem: "\(name) must be percent-encoded UTF-8", field: name)
        }
        guard !text.utf8.contains(0) else {
            throw Query.Malformed(problem: "\(name) must not contain a NUL character", field: name)
        }
        return text
    }
}
