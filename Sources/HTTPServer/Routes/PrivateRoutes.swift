import EventLog
import Hummingbird
import Logging

/// Where routes of the private listener are added: to the group of the scope that they need. There is no other way to
/// add one, so none can be left open by oversight.
package struct PrivateRoutes {
    package typealias Group = RouterGroup<BasicRequestContext>

    /// For what watches the server and holds nothing about customers; no token is asked for.
    let open: Group
    let read: Group
    let link: Group
    let admin: Group
    private let router: Router<BasicRequestContext>
    private let allowedMethods = AllowedMethods()

    init(tokens: TokenCache, logger: Logger) {
        router = Router(context: BasicRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ProblemMiddleware(allowedMethods: allowedMethods, logger: logger))
        open = router.group()
        read = router.group().add(middleware: RequiresScope(scope: .read, tokens: tokens))
        link = router.group().add(middleware: RequiresScope(scope: .link, tokens: tokens))
        admin = router.group().add(middleware: RequiresScope(scope: .admin, tokens: tokens))
    }

    /// What was added, each as `GET /subscriptions/{originalTransactionId}`.
    package var operations: [String] {
        router.routes.map { "\($0.method.rawValue) \(Self.template($0.path))" }.sorted()
    }

    /// The router, when all routes are there.
    func finished() -> Router<BasicRequestContext> {
        allowedMethods.record(router.routes)
        return router
    }

    private static func template(_ path: RouterPath) -> String {
        "/"
            + path.description.split(separator: "/").map { part in
                part.first == ":" ? "{\(part.dropFirst())}" : "\(part)"
            }
            .joined(separator: "/")
    }
}
