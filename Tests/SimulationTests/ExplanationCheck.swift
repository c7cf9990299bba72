import Subscriptions
import TestSupport
import Testing

extension ExpectedExplanation {
    /// Records an issue if the decisive rule, its purchase or its evidence is wrong.
    func check(_ explanation: Explanation, _ message: @autoclosure () -> String) {
        guard let difference = difference(explanation) else { return }
        Issue.record("\(difference), \(message()): \(explanation.sentence)")
    }
}
