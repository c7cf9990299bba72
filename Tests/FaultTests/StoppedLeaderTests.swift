import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Takeover of a stream from a stopped projector")
struct StoppedLeaderTests {
    /// Rows of access_period are copied, so the server waits for the rest of a statement. After a statement on
    /// customer_identity is complete, the stopped leader sends nothing more.
    @Test(
        "a stopped leader keeps its stream until its silent session is terminated, and does no harm when it resumes",
        arguments: ["access_period", "customer_identity"])
    func stopped(blocked table: String) async throws {
        let bundle = try await TakeoverBundle.setup(blocked: table)

        bundle.leader.signal(SIGSTOP)
        try await bundle.blocker.rollback(deadline: .now + .seconds(20))
        try await bundle.isFolded(1)
        let waited = ContinuousClock.now - bundle.start

        print("the leader was stopped, and another had folded after \(waited)")
        // Ten seconds of silence, and a margin for slow processes: other tests run beside this one.
        #expect(waited > .seconds(10))
        #expect(waited < .seconds(45))
        let apple = HTTPClient(port: try await bundle.server.ports().public)
        #expect(try await apple.post(try V1Body(number: 2).bytes).status == 200)
        try await bundle.isFolded(2)
        bundle.leader.signal(SIGCONT)
        bundle.other.signal(SIGTERM)
        try await bundle.other.hasEnded()
        #expect(try await apple.post(try V1Body(number: 3).bytes).status == 200)
        try await bundle.isFolded(3)
        #expect(
            try await bundle.database.lines(
                "select format('%s %s', position, (select count(*) from subledger.access_period)) from subledger.checkpoint"
            ) == ["3 3"])
        try await bundle.end([bundle.server, bundle.leader])
    }
}
