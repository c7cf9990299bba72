/// Waits for something that happens soon, looking every few milliseconds.
///
/// The limit is long because all tests share two or three threads, and what is waited for may stand in line behind them.
///
/// - Throws: ``NeverHappened`` at the deadline.
package func eventually<Value>(
    within limit: Duration = .seconds(180), _ what: String, _ look: () async throws -> Value?
) async throws -> Value {
    let deadline = ContinuousClock.now + limit
    while ContinuousClock.now < deadline {
        if let value = try await look() { return value }
        try await Task.sleep(for: .milliseconds(10))
    }
    throw NeverHappened(what: what)
}

package struct NeverHappened: Error, CustomStringConvertible {
    let what: String

    package var description: String { "did not happen in time: \(what)" }
}
