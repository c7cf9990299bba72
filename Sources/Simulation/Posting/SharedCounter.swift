import Synchronization

/// A counter that several tasks increment.
final class SharedCounter: Sendable {
    private let count = Atomic(0)

    var value: Int { count.load(ordering: .relaxed) }

    /// - Returns: The value before the addition.
    @discardableResult
    func add(_ amount: Int = 1) -> Int {
        count.wrappingAdd(amount, ordering: .relaxed).oldValue
    }
}
