import AsyncHTTPClient
import StoreSimulator

/// Compares a server's answers with the expected answers of a run.
package struct AnswerComparison {
    let simulation: Simulation
    /// The base URL of the private listener.
    let address: String
    let token: String?
    let connections: Int

    package init(simulation: Simulation, address: String, token: String?, connections: Int) {
        self.simulation = simulation
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

        /// True if there was no answer to any question: there is nothing to compare.
        package var isUnanswered: Bool {
            !differences.isEmpty && differences.count == compared && differences.allSatisfy(\.isUnanswered)
        }

        /// The number of differences that lost notifications do not explain.
        package var unexplained: Int { differences.count { !$0.isIncomplete } }

        package var description: String {
            let explained = differences.count - unexplained
            return "compared \(compared) answers, differences: \(unexplained)"
                + (explained > 0 ? ", and \(explained) explained by lost notifications" : "")
        }
    }

    /// A question with a wrong answer.
    private struct Finding: Sendable {
        let question: AnswerQuestion
        let differences: [AnswerDifference]
    }

    package func run() async throws -> Outcome {
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        do {
            let outcome = try await run(
                AnswerReader(client: client, address: address, token: token, app: simulation.settings.app))
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

    private func run(_ reader: AnswerReader) async throws -> Outcome {
        let compared = SharedCounter()
        var findings = await ask(simulation.settings.subscriptions, reader) { index in
            let questions =
                simulation.answers(ofStory: index).map(AnswerQuestion.subscription)
                + simulation.customerAnswers(ofStory: index).map(AnswerQuestion.customer)
            compared.add(questions.reduce(0) { $0 + $1.answers })
            return questions
        }
        var standstill = ContinuousClock.now
        while !findings.isEmpty, ContinuousClock.now - standstill < Limits.standstillMax {
            try await Task.sleep(for: Limits.pause)
            let again = await ask(findings.count, reader) { [findings] in [findings[$0].question] }
            if again.count < findings.count { standstill = .now }
            findings = again
        }
        let differences = findings.flatMap(\.differences)
        return Outcome(compared: compared.value, differences: differences.sorted { $0.order < $1.order })
    }

    /// Asks the questions of `count` parts, several parts concurrently, and returns those with wrong answers.
    private func ask(
        _ count: Int, _ reader: AnswerReader, _ part: @escaping @Sendable (Int) -> [AnswerQuestion]
    ) async -> [Finding] {
        let position = SharedCounter()
        return await withTaskGroup(of: [Finding].self) { group in
            for _ in 0..<min(connections, count) {
                group.addTask {
                    var found: [Finding] = []
                    while true {
                        let mine = position.add()
                        guard mine < count else { return found }
                        for question in part(mine) {
                            let differences = await question.differences(reader)
                            if !differences.isEmpty {
                                found.append(Finding(question: question, differences: differences))
                            }
                        }
                    }
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }
}
