import Subscriptions

/// The environment of the purchases for which the answer to a hand-in says what to give access to.
///
/// Purchases of the sandbox cost nothing, and those of Xcode are not signed by Apple. A backend that gives access to whatever
/// is genuine gives it away.
enum GrantedEnvironment {
    case only(Subscriptions.Environment)
    /// Chosen by a request: App Review buys in the sandbox with production apps.
    case any

    static let anyName = "any"

    /// - Throws: ``Problem`` with status 422 for another environment.
    func check(
        _ environment: Subscriptions.Environment, receipt: Problem.RefusedReceipt? = nil
    ) throws(Problem) {
        guard case .only(let granted) = self, granted != environment else { return }
        throw Problem(
            .unprocessableContent,
            "the purchase is of another environment than the requested one (\(granted.rawValue)) and gives no access",
            field: "environment", receipt: receipt)
    }
}
