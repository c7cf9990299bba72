import HTTPTypes
import Hummingbird
import Synchronization

/// The methods of each path, for responses with status 405.
final class AllowedMethods: Sendable {
    private struct Known {
        /// Nil matches any segment.
        let segments: [String?]
        let allow: String
    }

    private let known = Mutex<[Known]>([])

    /// Records the methods of all routes. Call it after the last route is added.
    func record(_ routes: [Router<BasicRequestContext>.RouteDescription]) {
        let paths = Dictionary(grouping: routes, by: \.path.description).map { path, routes in
            var methods = Set(routes.map(\.method))
            // The router supports HEAD wherever it supports GET.
            if methods.contains(.get) { methods.insert(.head) }
            return Known(
                // The router may describe a parameter as `{name}`, however it was added.
                segments: path.split(separator: "/").map { [":", "{"].contains($0.first) ? nil : String($0) },
                allow: methods.map(\.rawValue).sorted().joined(separator: ", "))
        }
        // If two paths match, the router prefers the one with fewer parameters.
        known.withLock { $0 = paths.sorted { $0.segments.count { $0 == nil } < $1.segments.count { $0 == nil } } }
    }

    /// The methods of a path, such as `GET, HEAD`; nil if the path is unknown.
    func allow(_ path: String) -> String? {
        let parts = path.split(separator: "/")
        return known.withLock { known in
            known.first { known in
                known.segments.count == parts.count
                    && zip(known.segments, parts).allSatisfy { segment, part in segment.map { $0 == part } ?? true }
            }?.allow
        }
    }
}
