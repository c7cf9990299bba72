import EventLog
import Logging

extension Database {
    /// Runs the body with an appender of its own, beside a server that may be running. Afterwards, all pools of this process
    /// are closed.
    package func withAppender<Value: Sendable>(
        logger: Logger, _ body: (Appender) async throws -> Value
    ) async throws -> Value {
        let appender = Appender(pool: pool(for: .appending, logger: logger), logger: logger)
        async let appending: Void = appender.run()
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(appender))
        } catch {
            result = .failure(error)
        }
        await appender.stop()
        await appending
        for pool in pools.all { await pool.close() }
        return try result.get()
    }
}
