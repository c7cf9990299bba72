import Hummingbird
import Logging

/// What apps use with a publishable token: handing their users' purchases in, and reading what these entitle to.
///
/// The private listener has these routes beside those of backends. The public listener has them alone, if it serves apps; both
/// count a customer's requests together.
package struct AppRoutes: Sendable {
    let tokens: TokenCache
    let gate: AppGate
    let handIns: HandInRoutes
    let customers: CustomerRoutes
    let logger: Logger

    /// Adds the routes to the public listener.
    ///
    /// - Parameter connectionsPerAddress: Of the listener.
    func add(to router: Router<BasicRequestContext>, connectionsPerAddress: Int) {
        let group = router.group()
            .add(middleware: BrowserHeaders(browsers: BrowserAccess()))
            .add(middleware: ProblemMiddleware(allowedMethods: AllowedMethods(), logger: logger))
            .add(
                middleware: RequiresPublishable(
                    tokens: tokens, gate: gate, places: AppPlaces(connectionsPerAddress: connectionsPerAddress)))
        handIns.addOwn(to: group)
        customers.addOwn(to: group)
    }
}
