import Logging

extension StoreClock {
    /// Makes work again and again until the task is cancelled. A failure is logged once until the work succeeds again.
    ///
    /// - Parameters:
    ///   - problem: The log line about a failure. Errors must contain nothing of what is asked about.
    ///   - pause: Between the end of one and the start of the next, also after a failure.
    ///   - work: Returns a shorter or longer pause; nil for `pause`.
    func repeating(
        _ problem: Logger.Message, every pause: Duration, _ logger: Logger,
        _ work: () async throws -> Duration?
    ) async {
        var isWorking = true
        while !Task.isCancelled {
            var next = pause
            do {
                next = try await work() ?? pause
                isWorking = true
            } catch {
                if isWorking, !Task.isCancelled { logger.warning(problem, metadata: ["error": "\(error)"]) }
                isWorking = false
            }
            try? await sleep(now() + next)
        }
    }
}
