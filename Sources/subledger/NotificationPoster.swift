import AsyncHTTPClient
import Foundation
import NIOCore
import StoreSimulator
import Synchronization

/// Posts the notifications of a run as the App Store would, several at a time and again what was not taken, and puts
/// the links that a backend states meanwhile.
struct NotificationPoster {
    let url: String
    /// Nil when no links are stated.
    let links: LinkTarget?
    let connections: Int
    /// A second; nil for as fast as they are taken.
    let rate: Double?

    enum Limits {
        /// Apple comes again five times.
        static let retriesMax = 5
        /// Before the first retry; twice as long before each other.
        static let backOff = Duration.milliseconds(250)
        static let answerWaitMax = TimeAmount.seconds(60)
        static let answerBytesMax = 1 << 16
        static let progressInterval = Duration.seconds(2)
    }

    /// Sends all of them, unless nobody answers.
    func post(_ steps: Steps) async -> Outcome {
        let state = PostingState()
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let progress = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: Limits.progressInterval)
                printError(state.outcome.all.description(of: steps.count))
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
        // Retries are ours, and are counted.
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
            await send(request, client) { note in state.note { note(&$0.posted) } }
        case .statement(let statement):
            guard let request = links?.request(statement) else { return }
            if let predecessor = statement.predecessor { await state.order.wait(for: predecessor) }
            await send(request, client) { note in state.note { note(&$0.stated) } }
            state.order.finish(position)
        }
    }

    private func send(
        _ request: HTTPClientRequest, _ client: HTTPClient, _ note: ((inout Tally) -> Void) -> Void
    ) async {
        var wait = Limits.backOff
        for attempt in 0...Limits.retriesMax {
            let status = await answer(to: request, client)
            if let status, status < 500 {
                note { $0.statuses[status, default: 0] += 1 }
                return
            }
            if attempt == Limits.retriesMax {
                note {
                    $0.failed += 1
                    if status == nil { $0.unanswered += 1 }
                }
            } else {
                note { $0.retries += 1 }
                try? await Task.sleep(for: wait)
                wait *= 2
            }
        }
    }

    /// Nil when there was none.
    private func answer(to request: HTTPClientRequest, _ client: HTTPClient) async -> Int? {
        do {
            let response = try await client.execute(request, timeout: Limits.answerWaitMax)
            // Read to its end, so that the connection can be used again.
            _ = try await response.body.collect(upTo: Limits.answerBytesMax)
            return Int(response.status.code)
        } catch {
            return nil
        }
    }
}

extension NotificationPoster {
    /// How it went with notifications and with links.
    struct Outcome: Sendable {
        var posted = Tally()
        var stated = Tally()

        var all: Tally {
            var sum = posted
            sum.statuses.merge(stated.statuses, uniquingKeysWith: +)
            sum.failed += stated.failed
            sum.unanswered += stated.unanswered
            sum.retries += stated.retries
            return sum
        }
    }
}

/// What the posting tasks share.
private final class PostingState: Sendable {
    let order = StatementOrder()
    private let position = SharedCounter()
    private let counted = Mutex(NotificationPoster.Outcome())

    var outcome: NotificationPoster.Outcome { counted.withLock { $0 } }

    /// Nil at the end, or once something got no answer at all while nothing had one.
    func next(of count: Int) -> Int? {
        guard counted.withLock({ $0.all.unanswered == 0 || $0.all.answered > 0 }) else { return nil }
        let mine = position.add()
        return mine < count ? mine : nil
    }

    func note(_ change: (inout NotificationPoster.Outcome) -> Void) {
        counted.withLock { change(&$0) }
    }
}
