import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Takeover of a stream from a killed projector")
struct TakeoverTests {
    @Test("another projector leads within two seconds after the leader is killed during a statement")
    func killed() async throws {
        let bundle = try await TakeoverBundle.setup()

        let start = ContinuousClock.now
        bundle.leader.signal(SIGKILL)
        try await bundle.isTakenOver()
        let waited = ContinuousClock.now - start
        try await bundle.blocker.rollback(deadline: .now + .seconds(20))

        print("the leader was killed, and another led after \(waited)")
        #expect(waited < .seconds(2))
        try await bundle.isFolded(1)
        try await bundle.end([bundle.server, bundle.other])
    }
}
