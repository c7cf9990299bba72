import Synchronization

/// A number that several tasks count up.
final class SharedCounter: Sendable {
    private let count = Atomic(0)

    var value: Int { count.load(ordering: .relaxed) }

    /// - Returns: The number before.
    @discardableResult
    func add(_ amount: Int = 1) -> Int {
        count.wrappingAdd(amount, ordering: .relaxed).oldValue
    }
}
