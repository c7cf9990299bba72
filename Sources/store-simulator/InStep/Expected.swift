/// A value that is known once, later, to one task that waits for it.
struct Expected<Value: Sendable>: Sendable {
    private let stream: AsyncStream<Value>
    private let continuation: AsyncStream<Value>.Continuation

    init() {
        (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1))
    }

    func set(_ value: Value) {
        continuation.yield(value)
        continuation.finish()
    }

    /// Call it once.
    ///
    /// - Throws: `CancellationError` if the task is cancelled first.
    func value() async throws -> Value {
        for await value in stream { return value }
        throw CancellationError()
    }
}
