import AsyncHTTPClient
import Encoding
import NIOCore
import Synchronization

/// Sends what a run contains to a server, with retries, and counts the answers.
final class PostingSession: Sendable {
    private let url: String
    private let links: LinkTarget?
    private let client: HTTPClient
    private let counted = Mutex(PostingOutcome())

    private enum Limits {
        /// Apple retries version 2 five times, too.
        static let retriesMax = 5
        /// The pause before the first retry, doubled for each later one.
        static let backOff = Duration.milliseconds(250)
        static let answerWaitMax = TimeAmount.seconds(60)
        static let answerBytesMax = 1 << 22
    }

    /// - Parameters:
    ///   - url: Where notifications are posted.
    ///   - links: Where link statements and receipts are sent; nil if they are not.
    init(url: String, links: LinkTarget?, connections: Int) {
        self.url = url
        self.links = links
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        // Retried and counted here.
        configuration.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Closes the connections. Call it once, when no request is in flight.
    func end() async {
        try? await client.shutdown()
    }

    var outcome: PostingOutcome { counted.withLock { $0 } }

    /// False after a request failed without an answer while no other request had been answered.
    var isAnswered: Bool {
        let all = outcome.all
        return all.unanswered == 0 || all.answered > 0
    }

    func send(_ delivery: SimulatedDelivery) async {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: delivery.body()))
        await send(request, isRefused: false, counting: \.posted)
    }

    func send(_ statement: SimulatedStatement) async {
        guard let request = links?.request(statement) else { return }
        await send(request, isRefused: statement.statement.isRefused, counting: \.linked)
    }

    func send(_ handIn: SimulatedHandIn) async {
        guard let request = links?.request(handIn) else { return }
        await send(request, isRefused: false, counting: \.handedIn)
    }

    /// - Parameter isRefused: Whether the expected answer is 409.
    private func send(
        _ request: HTTPClientRequest, isRefused: Bool,
        counting counts: WritableKeyPath<PostingOutcome, PostingCounts> & Sendable
    ) async {
        var wait = Limits.backOff
        for attempt in 0...Limits.retriesMax {
            let status = await answer(to: request)
            if let status, status < 500 {
                counted.withLock { $0[keyPath: counts].add(status: status, isRefused: isRefused) }
                return
            }
            if attempt == Limits.retriesMax {
                counted.withLock { outcome in
                    outcome[keyPath: counts].failed += 1
                    if status == nil { outcome[keyPath: counts].unanswered += 1 }
                }
            } else {
                counted.withLock { $0[keyPath: counts].retries += 1 }
                try? await Task.sleep(for: wait)
                wait *= 2
            }
        }
    }

    /// The status; nil if there was no answer.
    private func answer(to request: HTTPClientRequest) async -> Int? {
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

/// The counts of notifications, of link statements and of receipts.
package struct PostingOutcome: Sendable {
    package internal(set) var posted = PostingCounts()
    package internal(set) var linked = PostingCounts()
    package internal(set) var handedIn = PostingCounts()

    package var all: PostingCounts {
        var sum = posted
        sum.add(linked)
        sum.add(handedIn)
        return sum
    }
}
