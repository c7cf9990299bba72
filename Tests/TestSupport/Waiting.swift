/// Polls until the closure returns a value, at first every 10 ms and later every 50 ms.
///
/// The default limit is long because all tests share two or three threads, so the awaited work may be queued after them. It
/// ends well before deploy/test calls a silent process hung.
///
/// - Throws: ``NeverHappened`` at the deadline.
package func eventually<Value>(
    within limit: Duration = .seconds(300), _ what: String, _ look: () async throws -> Value?
) async throws -> Value {
    let deadline = ContinuousClock.now + limit
    var pause = 10
    while ContinuousClock.now < deadline {
        if let value = try await look() { return value }
        try await Task.sleep(for: .milliseconds(pause))
        pause = min(pause + 5, 50)
    }
    throw NeverHappened(what: what)
}

package struct NeverHappened: Error, CustomStringConvertible {
    let what: String

    package var description: String { "did not happen in time: \(what)" }
}
