/// Posts the notifications of a run as the App Store does, concurrently and with retries, and sends the backend's link
/// statements between them.
package struct NotificationPoster {
    let url: String
    /// Nil if link statements are not sent.
    let links: LinkTarget?
    let connections: Int
    /// Requests per second; nil for no limit.
    let rate: Double?

    package init(url: String, links: LinkTarget?, connections: Int, rate: Double?) {
        self.url = url
        self.links = links
        self.connections = connections
        self.rate = rate
    }

    private enum Limits {
        static let progressInterval = Duration.seconds(2)
    }

    /// Sends all steps. Stops early if the server does not answer at all.
    ///
    /// - Parameter onProgress: Called every two seconds with the counts so far.
    package func post(
        _ steps: Steps, onProgress: @escaping @Sendable (PostingCounts) -> Void = { _ in }
    ) async -> PostingOutcome {
        let session = PostingSession(url: url, links: links, connections: connections)
        let position = SharedCounter()
        let order = StatementOrder()
        let progress = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: Limits.progressInterval)
                onProgress(session.outcome.all)
            }
        }
        let start = ContinuousClock.now
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<min(connections, max(1, steps.count)) {
                group.addTask {
                    while session.isAnswered {
                        let mine = position.add()
                        guard mine < steps.count else { return }
                        if let rate {
                            try? await Task.sleep(until: start + .seconds(Double(mine) / rate), clock: .continuous)
                        }
                        switch steps[mine] {
                        case .notification(let delivery): await session.send(delivery)
                        case .statement(let statement):
                            if let predecessor = statement.predecessor { await order.wait(for: predecessor) }
                            await session.send(statement)
                            order.finish(mine)
                        }
                    }
                }
            }
        }
        progress.cancel()
        await session.end()
        return session.outcome
    }
}
