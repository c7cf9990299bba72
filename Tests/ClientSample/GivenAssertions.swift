import Foundation
import SubledgerClient

/// What the app's backend says about its user, one text after another. An app asks its backend.
// Unchecked: the lock guards the variable.
final class GivenAssertions: UserAssertion, @unchecked Sendable {
    private let lock = NSLock()
    private var texts: [String]

    init(_ texts: [String]) {
        self.texts = texts
    }

    func text(isRenewal: Bool) async throws -> String? {
        lock.withLock {
            if isRenewal, texts.count > 1 { texts.removeFirst() }
            return texts.first
        }
    }
}
