import Simulation
import Synchronization

/// Checks the servers' answers about access against the expected answers of the simulator.
struct AnswerCheck {
    let run: StormRun

    private static let connections = 8
    private static let triesMax = 20
    /// Above this number, a sample of this size is compared.
    private static let answersMax = 600

    func run() async throws {
        let expected = run.sender.load.simulations.flatMap { simulation in
            simulation.answers.map { ($0, simulation.settings.app) }
        }
        let step = max(1, expected.count / Self.answersMax)
        await withTaskGroup(of: Void.self) { group in
            for first in 0..<Self.connections {
                group.addTask {
                    for number in stride(from: first * step, to: expected.count, by: Self.connections * step) {
                        let (answer, app) = expected[number]
                        await compare(answer, app, run.servers[number / step % run.servers.count])
                    }
                }
            }
        }
        run.report.log("compared \(expected.count) answers, sampling one in \(step)")
    }

    /// Retries 503: a server finds connections that broke while idle one by one.
    private func answer(to path: String, _ server: StormServer) async -> StormClient.Answer? {
        for _ in 0..<Self.triesMax {
            guard let port = server.ports?.private, let answer = await run.sender.client.get(path, from: port) else {
                return nil
            }
            if answer.status != 503 { return answer }
            try? await Task.sleep(for: .milliseconds(100))
        }
        return nil
    }

    private func compare(_ expected: Answer, _ app: SimulatedApp, _ server: StormServer) async {
        let path =
            "/subscriptions/\(expected.originalTransactionId)?app=\(app.bundleId)"
            + "&environment=\(app.environment.rawValue)&at=\(expected.at)"
        guard let answer = await answer(to: path, server) else {
            return run.report.problem("no answer to \(path)")
        }
        // A subscription that is unknown to the server is not active.
        let active = answer.status == 404 ? false : answer.isActive
        if active != expected.active {
            run.report.problem(
                "\(path): expected active \(expected.active), answered \(answer.status) \(answer.text.prefix(300))")
        }
        if answer.text.contains(Canary.mark) { run.report.problem("the answer to \(path) contains a canary") }
    }
}
