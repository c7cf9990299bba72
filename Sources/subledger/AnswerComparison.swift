import ArgumentParser
import AsyncHTTPClient
import StoreSimulator

/// Asks a server for every answer of a run, and finds those that are not right.
struct AnswerComparison {
    let simulation: Simulation
    /// Of the private listener.
    let address: String
    let token: String?
    let connections: Int

    enum Limits {
        /// The server folds behind its 200. What differs is asked again until no answer has come right for so long.
        static let standstillMax = Duration.seconds(10)
        static let pause = Duration.milliseconds(250)
    }

    struct Outcome: CustomStringConvertible {
        let compared: Int
        let differences: [AnswerDifference]

        /// Differences where nothing was lost.
        var counting: Int { differences.count { !$0.isIncomplete } }

        var description: String {
            let excused = differences.count - counting
            return "compared \(compared) answers, differences: \(counting)"
                + (excused > 0 ? ", and \(excused) on lines of which not all was delivered" : "")
        }
    }

    /// A question whose answer was not right.
    private struct Finding: Sendable {
        let question: AnswerQuestion
        let differences: [AnswerDifference]
    }

    func run() async throws -> Outcome {
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
                simulation.answers(ofStory: index).map(AnswerQuestion.line)
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
        if !differences.isEmpty, differences.count == compared.value, differences.allSatisfy(\.isUnanswered) {
            printError(
                "subledger: no answer from \(address): nobody listens there, or it refuses the token (SUBLEDGER_TOKEN)")
            throw ExitCode.unavailable
        }
        return Outcome(compared: compared.value, differences: differences.sorted { $0.order < $1.order })
    }

    /// Asks the questions of `count` parts, several parts at a time.
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
