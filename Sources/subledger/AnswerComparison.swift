import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import StoreSimulator
import Subscriptions

/// Asks a server for every answer of a run, and finds those that are not right.
struct AnswerComparison {
    let simulation: Simulation
    /// Of the private listener.
    let address: String
    let connections: Int

    enum Limits {
        /// The server folds behind its 200. What differs is asked again until no answer has come right for so long.
        static let standstillMax = Duration.seconds(10)
        static let pause = Duration.milliseconds(250)
        static let answerWaitMax = TimeAmount.seconds(30)
        static let answerBytesMax = 1 << 22
    }

    struct Difference: Sendable, CustomStringConvertible {
        let answer: Answer
        /// What was answered; nil when there was no answer.
        let active: Bool?

        var description: String {
            let answered = active.map { $0 ? "active" : "not active" } ?? "nothing"
            return """
                \(answer.originalTransactionId) (\(answer.story.name)) at \(answer.at): expected \
                \(answer.active ? "active" : "not active"), answered \(answered)\
                \(answer.isIncomplete ? ", but not all was delivered" : "")
                """
        }
    }

    struct Outcome: CustomStringConvertible {
        let compared: Int
        let differences: [Difference]

        /// Differences on lines that lost nothing.
        var counting: Int { differences.count { !$0.answer.isIncomplete } }

        var description: String {
            let excused = differences.count - counting
            return "compared \(compared) answers, differences: \(counting)"
                + (excused > 0 ? ", and \(excused) on lines of which not all was delivered" : "")
        }
    }

    func run() async throws -> Outcome {
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
        var differing = await ask(simulation.settings.subscriptions, client) { index in
            let answers = simulation.answers(ofStory: index)
            compared.add(answers.count)
            return answers
        }
        var standstill = ContinuousClock.now
        while !differing.isEmpty, ContinuousClock.now - standstill < Limits.standstillMax {
            try await Task.sleep(for: Limits.pause)
            let again = await ask(differing.count, client) { [differing] in [differing[$0].answer] }
            if again.count < differing.count { standstill = .now }
            differing = again
        }
        let total = compared.value
        if total > 0, differing.count == total, differing.allSatisfy({ $0.active == nil }) {
            printError("subledger: nobody answers at \(address)")
            throw ExitCode.unavailable
        }
        return Outcome(
            compared: total,
            differences: differing.sorted {
                ($0.answer.originalTransactionId, $0.answer.at) < ($1.answer.originalTransactionId, $1.answer.at)
            })
    }

    /// Asks for the answers of `count` parts, several parts at a time.
    private func ask(
        _ count: Int, _ client: HTTPClient, _ part: @escaping @Sendable (Int) -> [Answer]
    ) async -> [Difference] {
        let position = SharedCounter()
        return await withTaskGroup(of: [Difference].self) { group in
            for _ in 0..<min(connections, count) {
                group.addTask {
                    var found: [Difference] = []
                    while true {
                        let mine = position.add()
                        guard mine < count else { return found }
                        for answer in part(mine) {
                            let active = await isActive(answer, client)
                            if active != answer.active { found.append(Difference(answer: answer, active: active)) }
                        }
                    }
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// Nil when there was no answer that says so.
    private func isActive(_ answer: Answer, _ client: HTTPClient) async -> Bool? {
        let app = simulation.settings.app
        let base = address.hasSuffix("/") ? String(address.dropLast()) : address
        guard var components = URLComponents(string: "\(base)/subscriptions/\(answer.originalTransactionId)") else {
            return nil
        }
        components.queryItems = [
            URLQueryItem(name: "app", value: app.bundleId),
            URLQueryItem(name: "environment", value: app.environment.rawValue),
            URLQueryItem(name: "at", value: answer.at.description),
        ]
        guard let url = components.string else { return nil }
        do {
            let response = try await client.execute(HTTPClientRequest(url: url), timeout: Limits.answerWaitMax)
            let body = try await response.body.collect(upTo: Limits.answerBytesMax)
            // What the server never heard of is not active.
            if response.status == .notFound { return false }
            guard response.status == .ok else { return nil }
            return try JSONDocument(Array(body.readableBytesView)).root["active"]?.bool
        } catch {
            return nil
        }
    }
}
