import AsyncHTTPClient
import Foundation
import NIOCore
import StoreSimulator
import Synchronization

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

    enum Limits {
        /// Apple retries five times.
        static let retriesMax = 5
        /// The pause before the first retry, doubled for each later one.
        static let backOff = Duration.milliseconds(250)
        static let answerWaitMax = TimeAmount.seconds(60)
        static let answerBytesMax = 1 << 16
        static let progressInterval = Duration.seconds(2)
    }

    /// Sends all steps. Stops early if the server does not answer at all.
    ///
    /// - Parameter onProgress: Called every two seconds with the counts so far.
    package func post(
        _ steps: Steps, onProgress: @escaping @Sendable (PostingCounts) -> Void = { _ in }
    ) async -> Outcome {
        let state = PostingState()
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let progress = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: Limits.progressInterval)
                onProgress(state.outcome.all)
            }
        }
        let start = ContinuousClock.now
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<min(connections, max(1, steps.count)) {
                group.addTask {
                    while let position = state.next(of: steps.count) {
                        if let rate {
                            try? await Task.sleep(until: start + .seconds(Double(position) / rate), clock: .continuous)
                        }
                        await send(steps[position], at: position, client, state)
                    }
                }
            }
        }
        progress.cancel()
        try? await client.shutdown()
        return state.outcome
    }

    private var configuration: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        // Retried and counted here.
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }

    private func send(_ step: Steps.Step, at position: Int, _ client: HTTPClient, _ state: PostingState) async {
        switch step {
        case .notification(let delivery):
            var request = HTTPClientRequest(url: url)
            request.method = .POST
            request.headers.add(name: "content-type", value: "application/json")
            request.body = .bytes(ByteBuffer(bytes: delivery.body()))
            await send(request, client, isRefused: false) { count in state.count { count(&$0.posted) } }
        case .statement(let statement):
            guard let request = links?.request(statement) else { return }
            if let predecessor = statement.predecessor { await state.order.wait(for: predecessor) }
            await send(request, client, isRefused: statement.statement.isRefused) { count in
                state.count { count(&$0.linked) }
            }
            state.order.finish(position)
        }
    }

    /// - Parameter isRefused: Whether the expected answer is 409.
    private func send(
        _ request: HTTPClientRequest, _ client: HTTPClient, isRefused: Bool,
        _ count: ((inout PostingCounts) -> Void) -> Void
    ) async {
        var wait = Limits.backOff
        for attempt in 0...Limits.retriesMax {
            let status = await answer(to: request, client)
            if let status, status < 500 {
                count { $0.add(status: status, isRefused: isRefused) }
                return
            }
            if attempt == Limits.retriesMax {
                count {
                    $0.failed += 1
                    if status == nil { $0.unanswered += 1 }
                }
            } else {
                count { $0.retries += 1 }
                try? await Task.sleep(for: wait)
                wait *= 2
            }
        }
    }

    /// The status; nil if there was no answer.
    private func answer(to request: HTTPClientRequest, _ client: HTTPClient) async -> Int? {
        do {
            let response = try await client.execute(request, timeout: Limits.answerWaitMax)
            // Read to its end so that the connection can be reused.
            _ = try await response.body.collect(upTo: Limits.answerBytesMax)
            return Int(response.status.code)
        } catch {
            return nil
        }
    }
}

extension NotificationPoster {
    /// The counts of notifications and of link statements.
    package struct Outcome: Sendable {
        package fileprivate(set) var posted = PostingCounts()
        package fileprivate(set) var linked = PostingCounts()

        package var all: PostingCounts {
            var sum = posted
            sum.add(linked)
            return sum
        }
    }
}

/// The state that the posting tasks share.
private final class PostingState: Sendable {
    let order = StatementOrder()
    private let position = SharedCounter()
    private let counted = Mutex(NotificationPoster.Outcome())

    var outcome: NotificationPoster.Outcome { counted.withLock { $0 } }

    /// The position of the next step. Nil at the end, or after a request failed without an answer while no other request
    /// had been answered.
    func next(of count: Int) -> Int? {
        guard counted.withLock({ $0.all.unanswered == 0 || $0.all.answered > 0 }) else { return nil }
        let mine = position.add()
        return mine < count ? mine : nil
    }

    func count(_ change: (inout NotificationPoster.Outcome) -> Void) {
        counted.withLock { change(&$0) }
    }
}
