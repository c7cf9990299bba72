import EventLog
import Hummingbird
import Logging

/// Routes with services of their own. They are made where the server is assembled.
package protocol RouteSet: Sendable {
    func add(to routes: PrivateRoutes)
}

/// The routes of the private listener, in groups by the scope that they require. Routes can be added only to a group,
/// so none is public by mistake.
package struct PrivateRoutes {
    package typealias Group = RouterGroup<BasicRequestContext>

    /// Routes for monitoring that return no customer data and need no token, only a host that is the listener's.
    let open: Group
    let submit: Group
    let read: Group
    let link: Group
    let operate: Group
    let webhooks: Group
    let admin: Group
    /// Like `submit` and `read`, and for apps too: see ``AppUser``.
    let apps: (submit: Group, read: Group)
    /// Routes of the console, which ask for a session themselves. They are for browsers, not part of the HTTP API.
    let console: Group
    /// The same routes for another listener; nil if apps are refused.
    package internal(set) var ofApps: AppRoutes?
    private let router: Router<BasicRequestContext>
    private let allowedMethods = AllowedMethods()

    init(tokens: TokenCache, appGate: AppGate? = nil, browsers: BrowserAccess = BrowserAccess(), logger: Logger) {
        router = Router(context: BasicRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: RequestMetrics(listener: "private"))
        router.add(middleware: BrowserHeaders(browsers: browsers))
        router.add(middleware: ProblemMiddleware(allowedMethods: allowedMethods, hasConsole: true, logger: logger))
        open = router.group().add(middleware: RequiresOwnHost(browsers: browsers))
        submit = router.group().add(middleware: RequiresScope(scope: .submit, tokens: tokens))
        read = router.group().add(middleware: RequiresScope(scope: .read, tokens: tokens))
        link = router.group().add(middleware: RequiresScope(scope: .link, tokens: tokens))
        operate = router.group().add(middleware: RequiresScope(scope: .operate, tokens: tokens))
        webhooks = router.group().add(middleware: RequiresScope(scope: .webhooks, tokens: tokens))
        admin = router.group().add(middleware: RequiresScope(scope: .admin, tokens: tokens))
        apps = (
            router.group().add(middleware: RequiresScope(scope: .submit, tokens: tokens, apps: appGate)),
            router.group().add(middleware: RequiresScope(scope: .read, tokens: tokens, apps: appGate))
        )
        console = router.group().add(middleware: RequiresOwnHost(browsers: browsers))
    }

    /// All routes of the HTTP API, in the form `GET /subscriptions/{originalTransactionId}`.
    package var operations: [String] { all.filter { !Self.isConsole($0) } }

    /// All routes of the console, in the same form.
    package var consoleOperations: [String] { all.filter(Self.isConsole) }

    private var all: [String] {
        router.routes.map { "\($0.method.rawValue) \(RouteTemplate.text($0.path.description))" }.sorted()
    }

    private static func isConsole(_ operation: String) -> Bool {
        let path = operation.split(separator: " ").last ?? ""
        return path == "/console" || path.hasPrefix("/console/")
    }

    /// Returns the router. Call it after the last route is added.
    func finished() -> Router<BasicRequestContext> {
        allowedMethods.record(router.routes)
        return router
    }
}
