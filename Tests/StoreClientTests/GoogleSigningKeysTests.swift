import Encoding
import Synchronization
import TestSupport
import Testing

@testable import StoreClient

@Suite("Signing keys of Google's pushes")
struct GoogleSigningKeysTests {
    /// A store that answers with an empty key set, or fails.
    private final class Store: StoreTransport {
        let count = Mutex(0)
        let fails = Mutex(false)
        let cacheControl: String?

        init(cacheControl: String?) { self.cacheControl = cacheControl }

        func send(
            _ request: StoreRequest, timeout: Duration, bytesMax: Int
        ) async throws(TransportFailure) -> StoreResponse {
            count.withLock { $0 += 1 }
            if fails.withLock({ $0 }) { throw .unreachable }
            return StoreResponse(status: 200, cacheControl: cacheControl, body: Array(#"{"keys":[]}"#.utf8))
        }
    }

    private static func keys(_ store: Store, _ clock: ManualClock) -> GoogleSigningKeys {
        GoogleSigningKeys(transport: store, clock: clock.clock, logger: LogRecorder().logger)
    }

    @Test("tokens with unknown keys cause at most one request a minute")
    func limited() async throws {
        let store = Store(cacheControl: "public, max-age=22000, must-revalidate")
        let clock = ManualClock(jumps: true)
        let keys = Self.keys(store, clock)

        for _ in 0..<50 { #expect(await keys.fetched() != nil) }
        #expect(store.count.withLock { $0 } == 1)
        clock.advance(by: .seconds(60))
        _ = await keys.fetched()
        #expect(store.count.withLock { $0 } == 2)
    }

    @Test("many requests at the same time fetch the keys once")
    func atOnce() async throws {
        let store = Store(cacheControl: nil)
        let keys = Self.keys(store, ManualClock(jumps: true))

        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { _ = await keys.fetched() } }
        }

        #expect(store.count.withLock { $0 } == 1)
    }

    /// A store that answers when it is told to.
    private final class SlowStore: StoreTransport {
        let mayAnswer = Mutex(false)

        func send(
            _ request: StoreRequest, timeout: Duration, bytesMax: Int
        ) async throws(TransportFailure) -> StoreResponse {
            while !mayAnswer.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(5)) }
            return StoreResponse(status: 200, body: Array(#"{"keys":[]}"#.utf8))
        }
    }

    @Test("few requests wait for the keys, and the others have none at once")
    func waiting() async throws {
        let store = SlowStore()
        let keys = GoogleSigningKeys(
            transport: store, clock: ManualClock(jumps: true).clock, logger: LogRecorder().logger)

        let answers = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<100 { group.addTask { await keys.fetched() != nil } }
            var answers: [Bool] = []
            while let answer = await group.next() {
                answers.append(answer)
                if answers.count == 100 - Limits.signingKeysWaitingMax { store.mayAnswer.withLock { $0 = true } }
            }
            return answers
        }

        #expect(answers.prefix(100 - Limits.signingKeysWaitingMax).allSatisfy { !$0 })
        #expect(answers.count { $0 } == Limits.signingKeysWaitingMax)
    }

    @Test("keys that cannot be fetched are no keys, and are asked for again five seconds later")
    func failing() async throws {
        let store = Store(cacheControl: nil)
        store.fails.withLock { $0 = true }
        let clock = ManualClock(jumps: true)
        let keys = Self.keys(store, clock)

        #expect(await keys.fetched() == nil)
        #expect(await keys.fetched() == nil)
        #expect(store.count.withLock { $0 } == 1)
        store.fails.withLock { $0 = false }
        clock.advance(by: .seconds(5))
        #expect(await keys.fetched() != nil)
    }

    @Test("max-age is read from the header")
    func maxAge() {
        #expect(GoogleSigningKeys.maxAge("public, max-age=22000, must-revalidate") == .seconds(22000))
        #expect(GoogleSigningKeys.maxAge("Max-Age=5") == .seconds(5))
        #expect(GoogleSigningKeys.maxAge("no-cache") == nil)
        #expect(GoogleSigningKeys.maxAge(nil) == nil)
        #expect(GoogleSigningKeys.maxAge("max-age=-1") == nil)
    }
}
