import Encoding

/// How the store sends its notifications.
package struct NotificationSending: Sendable {
    /// Posts a body to the app's server.
    package let post: @Sendable (_ body: [UInt8]) async -> SendAttempt.Result
    /// The fraction of notifications that never arrive, 0 to 1: each of their attempts fails.
    package var lose = 0.0
    /// The fraction of notifications whose first attempts fail, 0 to 1. In the sandbox, which tries once, they are lost.
    package var delay = 0.0
    /// Sends what is due at the same time in any order.
    package var isShuffled = false
    package var connections = 8

    package init(post: @escaping @Sendable (_ body: [UInt8]) async -> SendAttempt.Result) {
        self.post = post
    }
}
