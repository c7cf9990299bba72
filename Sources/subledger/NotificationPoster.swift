import AsyncHTTPClient
import Foundation
import NIOCore
import StoreSimulator
import Synchronization

/// Posts the deliveries of a run as the App Store would: several at a time, and again what was not taken.
struct NotificationPoster {
    let url: String
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

    /// Posts all of them, unless nobody answers.
    func post(_ deliveries: Deliveries) async -> Tally {
        let state = PostingState()
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let progress = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: Limits.progressInterval)
                printError(state.tally.description(of: deliveries.count))
            }
        }
        let start = ContinuousClock.now
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<min(connections, max(1, deliveries.count)) {
                group.addTask {
                    while let position = state.next(of: deliveries.count) {
                        if let rate {
                            try? await Task.sleep(until: start + .seconds(Double(position) / rate), clock: .continuous)
                        }
                        await post(deliveries[position].body(), client, state)
                    }
                }
            }
        }
        progress.cancel()
        try? await client.shutdown()
        return state.tally
    }

    private var configuration: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        // Retries are ours, and are counted.
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }

    private func post(_ body: [UInt8], _ client: HTTPClient, _ state: PostingState) async {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: body))
        var wait = Limits.backOff
        for attempt in 0...Limits.retriesMax {
            let status = await answer(to: request, client)
            if let status, status < 500 {
                state.note(status: status)
                return
            }
            if attempt == Limits.retriesMax {
                state.noteFailure(status: status)
            } else {
                state.noteRetry()
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

/// How posting went.
struct Tally: Sendable {
    /// Answers that were final, by status.
    var statuses: [Int: Int] = [:]
    /// Given up after the last retry, with an answer of 5xx or without any.
    var failed = 0
    /// Of these, without any.
    var unanswered = 0
    var retries = 0

    var done: Int { statuses.values.reduce(0, +) + failed }
    var answered: Int { done - unanswered }
    /// Answers that are neither 200 to 206, which Apple takes for success, nor worth a retry.
    var refused: Int { statuses.filter { !(200...206).contains($0.key) }.values.reduce(0, +) }

    /// One line about them.
    ///
    /// - Parameter total: How many there are to post, if they are not posted yet.
    func description(of total: Int? = nil) -> String {
        let byStatus = statuses.merging([200: 0]) { known, _ in known }.sorted { $0.key < $1.key }
            .map { "answered \($0.key): \($0.value)" }.joined(separator: ", ")
        return "posted \(done)" + (total.map { " of \($0)" } ?? "") + ", \(byStatus), refused: \(refused), "
            + "failed: \(failed)" + (retries > 0 ? ", tried again: \(retries)" : "")
    }
}

/// What the posting tasks share.
private final class PostingState: Sendable {
    private let position = SharedCounter()
    private let counted = Mutex(Tally())

    var tally: Tally { counted.withLock { $0 } }

    /// Nil at the end, or once something got no answer at all while nothing had one.
    func next(of count: Int) -> Int? {
        guard counted.withLock({ $0.unanswered == 0 || $0.answered > 0 }) else { return nil }
        let mine = position.add()
        return mine < count ? mine : nil
    }

    func note(status: Int) {
        counted.withLock { $0.statuses[status, default: 0] += 1 }
    }

    func noteFailure(status: Int?) {
        counted.withLock {
            $0.failed += 1
            if status == nil { $0.unanswered += 1 }
        }
    }

    func noteRetry() {
        counted.withLock { $0.retries += 1 }
    }
}
