import Encoding
import EventLog
import Testing

@testable import StoreClient

@Suite("The days whose deliveries are audited")
struct AuditDayTests {
    private static func instant(_ text: String) throws -> Instant { try #require(Instant(iso8601: text)) }

    private static func day(_ text: String) throws -> AuditDay { try #require(AuditDay(text)) }

    /// - Parameter audited: The days with when they were audited.
    private static func due(_ now: String, _ audited: [(String, String)] = [], since first: String = "2026-01-01")
        throws -> [String]
    {
        let known = try audited.map { (try day($0.0), try instant($0.1)) }
        return AuditDay.due(
            at: try instant(now), audited: Dictionary(uniqueKeysWithValues: known), since: try day(first)
        ).map(\.text)
    }

    @Test("the first audit is of yesterday, from one hour after midnight on")
    func first() throws {
        #expect(try Self.due("2026-03-11T00:59:59.999Z") == ["2026-03-09"])
        #expect(try Self.due("2026-03-11T01:00:00.000Z") == ["2026-03-10"])
    }

    @Test("a day is audited again eight days after its end, once")
    func again() throws {
        let others = (2...9).map { ("2026-03-0\($0)", "2026-03-10T01:00:00.000Z") }
        let early = [("2026-03-01", "2026-03-02T01:00:00.000Z")] + others
        let late = [("2026-03-01", "2026-03-10T00:00:00.000Z")] + others

        #expect(try Self.due("2026-03-09T23:59:59.999Z", early).isEmpty)
        #expect(try Self.due("2026-03-10T00:00:00.000Z", early) == ["2026-03-01"])
        #expect(try Self.due("2026-03-10T02:00:00.000Z", late).isEmpty)
    }

    @Test("the days of an outage are audited as far as Apple has their notifications")
    func outage() throws {
        let audited = [("2026-03-01", "2026-03-10T00:00:00.000Z")]

        #expect(try Self.due("2026-03-05T03:00:00.000Z", audited) == ["2026-03-02", "2026-03-03", "2026-03-04"])
        #expect(
            try Self.due("2026-03-05T03:00:00.000Z", audited, since: "2026-03-04") == ["2026-03-04"])
    }

    @Test("a day that was left out is audited as long as it is one of the last days, and none before the first one")
    func leftOut() throws {
        let audited = [("2026-03-01", "2026-03-10T00:00:00.000Z"), ("2026-03-03", "2026-03-12T00:00:00.000Z")]

        #expect(try Self.due("2026-03-05T03:00:00.000Z", audited) == ["2026-03-02", "2026-03-04"])
        #expect(
            try Self.due("2026-03-11T03:00:00.000Z", audited) == ["2026-03-02"] + (4...9).map { "2026-03-0\($0)" } + [
                "2026-03-10"
            ])
        #expect(!(try Self.due("2026-03-12T03:00:00.000Z", audited).contains("2026-03-02")))
    }

    @Test("only dates are days", arguments: ["2026-3-1", "2026-02-30", "yesterday", "", "2026-03-01T00:00:00Z"])
    func noDays(_ text: String) {
        #expect(AuditDay(text) == nil)
    }
}
