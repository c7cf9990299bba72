import ArgumentParser
import Server
import Simulation

extension StoreSimulator {
    /// Compares all answers of a server about Google Play, and its change feed, with those at the end of the stories.
    ///
    /// - Parameter address: The base URL of the private listener.
    func compare(_ google: PlaySimulation, at address: String) async throws {
        let token = Settings(flags: settings([(["token"], token)])).token
        let comparison = AnswerComparison(google, address: address, token: token, connections: connections)
        let outcome = try await outcome(of: comparison, at: address)
        let feed = try await FeedComparison(google, address: address, token: token).run()
        for difference in feed.differences { print(difference) }
        print(feed.description)
        guard outcome.unexplained == 0, feed.differences.isEmpty else { throw ExitCode.failure }
    }

    /// Compares the answers of the server at an address, and prints the differences.
    ///
    /// - Throws: ``ExitCode/unavailable`` if it does not answer.
    func outcome(of comparison: AnswerComparison, at address: String) async throws -> AnswerComparison.Outcome {
        let outcome = try await comparison.run()
        guard !outcome.isUnanswered else {
            printError(
                "store-simulator: no answer from \(address): expected a private listener that accepts SUBLEDGER_TOKEN")
            throw ExitCode.unavailable
        }
        for difference in outcome.differences { print(difference.description) }
        print(outcome.description)
        return outcome
    }
}
