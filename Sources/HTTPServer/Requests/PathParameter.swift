import Foundation
import Hummingbird

/// Reads a percent-decoded parameter of a request's path.
enum PathParameter {
    /// - Throws: ``RequestQuery/Malformed`` if the value cannot be an id in the database.
    static func text(_ name: String, _ context: BasicRequestContext) throws(RequestQuery.Malformed) -> String {
        guard let text = context.parameters.get(name)?.removingPercentEncoding else {
            throw RequestQuery.Malformed(problem: "\(name) must be percent-encoded UTF-8", field: name)
        }
        guard !text.utf8.contains(0) else {
            throw RequestQuery.Malformed(problem: "\(name) must not contain a NUL character", field: name)
        }
        return text
    }
}
