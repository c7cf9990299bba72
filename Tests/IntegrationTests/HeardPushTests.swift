import TestSupport
import Testing

@Suite("What a store pushes is heard")
struct HeardPushTests {
    @Test("a push is asked about within a second, without a look for it")
    func heard() async throws {
        try await AskingBundle.with(.google) { bundle in
            try await bundle.withProcess(inRealTime: true) { google async throws in
                let running = Task { await google.run() }
                try await Task.sleep(for: .seconds(3))
                let before = bundle.transport.questions.count
                let start = ContinuousClock.now
                try await bundle.push("token-9")
                _ = try await eventually("Google is asked") {
                    bundle.transport.questions.count > before ? true : nil
                }
                let took = ContinuousClock.now - start
                running.cancel()
                await running.value

                #expect(took < .seconds(2), "\(took)")
            }
        }
    }
}
