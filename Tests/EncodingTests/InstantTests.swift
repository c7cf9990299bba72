import Encoding
import Foundation
import TestSupport
import Testing

@Suite("Instants")
struct InstantTests {
    @Test(
        "an instant is written as UTC with milliseconds",
        arguments: [
            (Int64(0), "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (1_573_200_835_000, "2019-11-08T08:13:55.000Z"),
            (1_584_703_627_636, "2020-03-20T11:27:07.636Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_517_443_200_000, "2018-02-01T00:00:00.000Z"),
            (1_531_785_600_000, "2018-07-17T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ])
    func writes(milliseconds: Int64, text: String) throws {
        let instant = try #require(Instant(milliseconds: milliseconds))

        #expect(instant.description == text)
        #expect(Instant(iso8601: text) == instant)
    }

    @Test(
        "instants outside 1970 to 9999 are rejected",
        arguments: [
            -1, 253_402_300_800_000, Int64.min, Int64.max,
        ])
    func range(milliseconds: Int64) {
        #expect(Instant(milliseconds: milliseconds) == nil)
    }

    @Test(
        "fractions are truncated to milliseconds, offsets are applied, and a bare date is midnight UTC",
        arguments: [
            ("2019-11-08T08:13:55Z", Int64(1_573_200_835_000)),
            ("2019-11-08T08:13:55.1Z", 1_573_200_835_100),
            ("2019-11-08T08:13:55.12Z", 1_573_200_835_120),
            ("2019-11-08T08:13:55.123456789Z", 1_573_200_835_123),
            ("2019-11-08T08:13:55.000999Z", 1_573_200_835_000),
            ("2019-11-08T17:13:55+09:00", 1_573_200_835_000),
            ("2019-11-08T00:13:55-08:00", 1_573_200_835_000),
            ("2019-11-08T13:43:55.5+05:30", 1_573_200_835_500),
            ("2019-11-08", 1_573_171_200_000),
            ("1970-01-01T01:00:00+01:00", 0),
        ])
    func reads(text: String, milliseconds: Int64) {
        #expect(Instant(iso8601: text)?.milliseconds == milliseconds)
    }

    @Test(
        "text that is not an ISO 8601 instant is rejected",
        arguments: [
            "", " ", "2019", "2019-11", "2019-13-01", "2019-00-01", "2019-11-00", "2019-11-31", "2019-11-08T",
            "2019-11-08T24:00:00Z", "2019-11-08T08:60:00Z", "2019-11-08T08:13:60Z", "2019-11-08T08:13Z",
            "2019-11-08T08:13:55", "2019-11-08T08:13:55.Z", "2019-11-08T08:13:55.1234567890Z",
            "2019-11-08T08:13:55Zx", " 2019-11-08T08:13:55Z", "2019-11-08 08:13:55 Etc/GMT",
            "2019-11-08T08:13:55+0a:00",
            "2019-11-08T08:13:55+25:00", "2019-11-08T08:13:55+09:61", "1969-12-31T23:59:59Z", "10000-01-01T00:00:00Z",
            "1970-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "-2019-11-08", "2019-1-08", "+019-11-08",
            "２０１９-11-08", "1573200835000", "2019-11-08T08:13:55\u{0}Z",
        ])
    func refuses(text: String) {
        #expect(Instant(iso8601: text) == nil)
    }

    @Test(
        "February has 29 days only in leap years",
        arguments: [
            ("2016", true), ("2019", false), ("2000", true), ("2100", false), ("2400", true), ("1972", true),
            ("9996", true), ("9900", false),
        ])
    func leapYears(year: String, isLeap: Bool) {
        let last = Instant(iso8601: "\(year)-02-29T12:00:00Z")
        let next = Instant(iso8601: "\(year)-03-01T00:00:00Z")
        let before = Instant(iso8601: "\(year)-02-28T00:00:00Z")

        #expect((last != nil) == isLeap)
        #expect(
            next.flatMap { next in before.map { next.milliseconds - $0.milliseconds } }
                == (isLeap ? 172_800_000 : 86_400_000))
    }

    @Test("arithmetic stays inside the range", arguments: [Int64.min, -1, 0, 1, Int64.max])
    func arithmetic(amount: Int64) {
        let early = Instant.earliest.advanced(byMilliseconds: amount)
        let late = Instant.latest.advanced(byMilliseconds: amount)

        #expect(early >= .earliest && early <= .latest)
        #expect(late >= .earliest && late <= .latest)
        #expect((amount > 0) == (early > .earliest))
        #expect((amount < 0) == (late < .latest))
    }

    @Test("one thousand random instants are read and written as by Foundation")
    func agreesWithFoundation() throws {
        var generator = TestSeed.generator()
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: "UTC"))
        var disagreements: [String] = []

        for _ in 0..<1000 {
            let milliseconds = Int64.random(in: 0...253_402_300_799_999, using: &generator)
            let seconds = milliseconds / 1000
            let parts = calendar.dateComponents(
                [.year, .month, .day, .hour, .minute, .second], from: Date(timeIntervalSince1970: Double(seconds)))
            let expected = String(
                format: "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.year ?? 0, parts.month ?? 0, parts.day ?? 0,
                parts.hour ?? 0, parts.minute ?? 0, parts.second ?? 0, Int(milliseconds % 1000))
            let written = Instant(milliseconds: milliseconds)?.description
            let read = Instant(iso8601: expected)?.milliseconds
            if written != expected || read != milliseconds {
                disagreements.append("\(milliseconds): \(expected), \(written ?? "nil")")
            }
        }

        #expect(disagreements == [])
    }

    @Test("a duration of whole milliseconds is added exactly", arguments: [46_800_000, 1, 999, 1001, 86_399_999])
    func addsExactly(_ milliseconds: Int64) {
        let start = Instant(milliseconds: 1_733_832_000_000) ?? .earliest
        for amount in [milliseconds, -milliseconds] {
            #expect(start.advanced(by: .milliseconds(amount)).milliseconds == start.milliseconds + amount)
        }
    }

    @Test("the longest durations are clamped")
    func clampsDurations() {
        #expect(Instant.earliest.advanced(by: .seconds(Int64.max)) == .latest)
        #expect(Instant.latest.advanced(by: .seconds(Int64.min)) == .earliest)
    }

    @Test(
        "the time until an instant is a number of months, weeks or days, to half a day",
        arguments: [
            ("2025-01-31T10:00:00Z", "2025-02-28T09:59:59.4Z", "P1M"),
            ("2024-02-29T10:00:00Z", "2025-02-28T11:00:00Z", "P12M"),
            ("2025-01-05T10:00:00Z", "2025-01-12T08:59:00Z", "P1W"),
            ("2025-01-05T10:00:00Z", "2025-04-05T10:00:00Z", "P3M"),
            ("2025-01-05T10:00:00Z", "2025-01-08T21:00:00Z", "P3D"),
            ("2025-01-05T10:00:00Z", "2025-02-06T10:00:00Z", "P32D"),
            ("2025-01-05T10:00:00Z", "2025-01-05T10:05:00Z", nil),
            ("2025-01-05T10:00:00Z", "2025-01-04T10:00:00Z", nil),
            ("2025-01-05T10:00:00Z", "2026-03-05T10:00:00Z", nil),
        ] as [(String, String, String?)])
    func lengths(start: String, end: String, length: String?) throws {
        let (start, end) = (try #require(Instant(iso8601: start)), try #require(Instant(iso8601: end)))

        #expect(start.isoDuration(until: end) == length)
    }
}
