import Testing

@testable import EventLog

@Suite("The accounts of events whose past is read")
struct BackfillLogTests {
    @Test("what one event names is one account, and events that share a purchase are about the same account")
    func accounts() {
        #expect(BackfillLog.accounts([]) == [])
        #expect(BackfillLog.accounts([(1, "a"), (2, "b"), (3, "a")]) == [["a"], ["b"]])
        #expect(BackfillLog.accounts([(1, "a"), (1, "b"), (2, "c"), (3, "b"), (3, "d")]) == [["a", "b", "d"], ["c"]])
        #expect(
            BackfillLog.accounts([(1, "a"), (2, "b"), (3, "a"), (3, "b"), (4, "b"), (4, "c")]) == [["a", "b", "c"]])
    }
}
