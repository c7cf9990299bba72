import AsyncHTTPClient
import Encoding

/// Compares a server's answers with the expected answers of a run.
package struct AnswerComparison {
    /// Questions about one app in one environment.
    struct Part: Sendable {
        let app: SimulatedApp
        let questions: [AnswerQuestion]
    }

    /// What the answers are about; nil for the App Store.
    private let store: String?
    /// The number of stories.
    private let stories: Int
    /// The questions about a story, counted from 0.
    private let parts: @Sendable (_ story: Int) -> [Part]
    /// The base URL of the private listener.
    private let address: String
    private let token: String?
    private let connections: Int

    package init(simulation: Simulation, address: String, token: String?, connections: Int) {
        store = nil
        stories = simulation.settings.subscriptions
        parts = { index in
            let questions =
                simulation.answers(ofStory: index).map(AnswerQuestion.subscription)
                + simulation.customerAnswers(ofStory: index).map(AnswerQuestion.customer)
            return [Part(app: simulation.settings.app, questions: questions)]
        }
        self.address = address
        self.token = token
        self.connections = connections
    }

    /// - Parameter acknowledged: When the server acknowledged purchases, by the number of the story and by purchase token.
    package init(
        _ google: PlaySimulation, acknowledged: [Int: [String: Instant]] = [:], address: String, token: String?,
        connections: Int
    ) {
        store = "Google Play"
        stories = google.count
        parts = { index in
            let acknowledged = acknowledged[index] ?? [:]
            let story = google.storyteller.settings.stories[index % google.storyteller.settings.stories.count]
            let app = SimulatedApp(
                bundleId: google.storyteller.settings.packageName, environment: story.isTest ? .sandbox : .production)
            let questions =
                google.answers(ofStory: index, acknowledged: acknowledged).map(AnswerQuestion.purchase)
                + google.customerAnswers(ofStory: index, acknowledged: acknowledged, joinsStores: false)
                .map(AnswerQuestion.appUser)
            return [Part(app: app, questions: questions)]
        }
        self.address = address
        self.token = token
        self.connections = connections
    }

    enum Limits {
        /// The server updates its projections after it answers 200. Wrong answers are requested again until none has become
        /// right for this long.
        static let standstillMax = Duration.seconds(10)
        static let pause = Duration.milliseconds(250)
    }

    package struct Outcome: CustomStringConvertible {
        package let compared: Int
        package let differences: [AnswerDifference]
        let store: String?

        /// True if there was no answer to any question: there is nothing to compare.
        package var isUnanswered: Bool {
            !differences.isEmpty && differences.count == compared && differences.allSatisfy(\.isUnanswered)
        }

        /// The number of differences without an explanation.
        package var unexplained: Int { differences.count { $0.explanation == nil } }

        package var description: String {
            let explained = Dictionary(grouping: differences.compactMap(\.explanation), by: \.self)
            return "compared \(compared) answers\(store.map { " about \($0)" } ?? ""), differences: \(unexplained)"
                + explained.sorted { $0.key < $1.key }.map { reason, all in
                    let text = reason == AnswerQuestion.lost ? "lost notifications" : "\"\(reason)\""
                    return ", and \(all.count) explained by \(text)"
                }.joined()
        }
    }

    /// A question with a wrong answer.
    private struct Finding: Sendable {
        let app: SimulatedApp
        let question: AnswerQuestion
        let differences: [AnswerDifference]
    }

    package func run() async throws -> Outcome {
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        do {
            let outcome = try await run(client)
            try await client.shutdown()
            return outcome
        } catch {
            try? await client.shutdown()
            throw error
        }
    }

    private var configuration: HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration()
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }

    private func run(_ client: HTTPClient) async throws -> Outcome {
        let compared = SharedCounter()
        var findings = await ask(stories, client) { index in
            let parts = self.parts(index)
            compared.add(parts.flatMap(\.questions).reduce(0) { $0 + $1.answers })
            return parts
        }
        var standstill = ContinuousClock.now
        while !findings.isEmpty, ContinuousClock.now - standstill < Limits.standstillMax {
            try await Task.sleep(for: Limits.pause)
            let again = await ask(findings.count, client) { [findings] in
                [Part(app: findings[$0].app, questions: [findings[$0].question])]
            }
            if again.count < findings.count { standstill = .now }
            findings = again
        }
        let differences = findings.flatMap(\.differences)
        return Outcome(compared: compared.value, differences: differences.sorted { $0.order < $1.order }, store: store)
    }

    /// Asks the questions of `count` parts, several parts concurrently, and returns those with wrong answers.
    private func ask(
        _ count: Int, _ client: HTTPClient, _ parts: @escaping @Sendable (Int) -> [Part]
    ) async -> [Finding] {
        let position = SharedCounter()
        return await withTaskGroup(of: [Finding].self) { group in
            for _ in 0..<min(connections, count) {
                group.addTask {
                    var found: [Finding] = []
                    while true {
                        let mine = position.add()
                        guard mine < count else { return found }
                        for part in parts(mine) {
                            let reader = AnswerReader(client: client, address: address, token: token, app: part.app)
                            for question in part.questions {
                                let differences = await question.differences(reader)
                                guard !differences.isEmpty else { continue }
                                found.append(Finding(app: part.app, question: question, differences: differences))
                            }
                        }
                    }
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }
}
