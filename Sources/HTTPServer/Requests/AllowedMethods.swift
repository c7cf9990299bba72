import HTTPTypes
import Hummingbird
import Synchronization

/// The methods of each path, for responses with status 405.
final class AllowedMethods: Sendable {
    private struct Known {
        /// Nil stands for any segment.
        let segments: [String?]
        let allow: String
    }

    private let known = Mutex<[Known]>([])

    /// To be called when all routes are there.
    func record(_ routes: [Router<BasicRequestContext>.RouteDescription]) {
        let paths = Dictionary(grouping: routes, by: \.path.description).map { path, routes in
            var methods = Set(routes.map(\.method))
            // The router answers it wherever it answers GET.
            if methods.contains(.get) { methods.insert(.head) }
            return Known(
                // The router writes a parameter as `{name}`, however it was added.
                segments: path.split(separator: "/").map { [":", "{"].contains($0.first) ? nil : String($0) },
                allow: methods.map(\.rawValue).sorted().joined(separator: ", "))
        }
        // Of two that fit, the router takes the one that names more.
        known.withLock { $0 = paths.sorted { $0.segments.count { $0 == nil } < $1.segments.count { $0 == nil } } }
    }

    /// The methods of a path, as `GET, HEAD`; nil when it is unknown.
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
