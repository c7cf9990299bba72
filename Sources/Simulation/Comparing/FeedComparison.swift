import AsyncHTTPClient
import Encoding

/// Reads the change feed of a server, folds it, and compares the result with the books of a run on Google Play.
package struct FeedComparison: Sendable {
    private let google: PlaySimulation
    private let acknowledged: [Int: [String: Instant]]
    /// The base URL of the private listener.
    private let address: String
    private let token: String?

    /// - Parameter acknowledged: When the server acknowledged purchases, by the number of the story and by purchase token.
    package init(
        _ google: PlaySimulation, acknowledged: [Int: [String: Instant]] = [:], address: String, token: String?
    ) {
        self.google = google
        self.acknowledged = acknowledged
        self.address = address
        self.token = token
    }

    private enum Limits {
        /// Changes by the clock are published up to ten seconds late. A feed with differences is read again for this
        /// long.
        static let waitMax = Duration.seconds(25)
        static let pause = Duration.milliseconds(500)
    }

    package struct Outcome: Sendable, CustomStringConvertible {
        /// The number of changes.
        package let changes: Int64
        package let differences: [String]

        package var description: String {
            "folded \(changes) changes about Google Play, differences: \(differences.count)"
        }
    }

    package func run() async throws -> Outcome {
        var configuration = HTTPClient.Configuration()
        configuration.httpVersion = .http1Only
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        do {
            let deadline = ContinuousClock.now + Limits.waitMax
            var outcome = await compare(client)
            while !outcome.differences.isEmpty, ContinuousClock.now < deadline {
                try await Task.sleep(for: Limits.pause)
                outcome = await compare(client)
            }
            try await client.shutdown()
            return outcome
        } catch {
            try? await client.shutdown()
            throw error
        }
    }

    private func compare(_ client: HTTPClient) async -> Outcome {
        var changes: Int64 = 0
        var differences: [String] = []
        for isTest in [false, true] {
            let books = google.books(isTest: isTest, acknowledged: acknowledged)
            let app = SimulatedApp(bundleId: google.packageName, environment: isTest ? .sandbox : .production)
            guard !books.isEmpty else { continue }
            let reader = AnswerReader(client: client, address: address, token: token, app: app)
            guard let feed = await reader.feed() else {
                differences.append("the change feed of \(app.environment.rawValue) was not answered")
                continue
            }
            changes += feed.fold.last
            differences += feed.fold.differences(from: books, at: feed.asOf) {
                google.storyteller.place(ofToken: $0) != nil
            }
        }
        return Outcome(changes: changes, differences: differences)
    }
}

extension PlaySimulation {
    /// The expected access to each subscription and one-time purchase of one environment, by its first purchase token.
    ///
    /// - Parameter isTest: Whether those of license testers are returned, or all others.
    func books(isTest: Bool, acknowledged: [Int: [String: Instant]] = [:]) -> [String: AccessBook] {
        var books: [String: AccessBook] = [:]
        for index in 0..<count {
            let story = storyteller.story(at: index, acknowledged: acknowledged[index] ?? [:])
            guard story.story.isTest == isTest else { continue }
            for (token, key) in zip(story.firstTokens, story.keys) { books[token] = key.access }
        }
        return books
    }
}
