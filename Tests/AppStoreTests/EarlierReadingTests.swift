import AppStore
import Encoding
import Subscriptions
import Testing

/// What the release of 26 November 2026 read of a body, as its own source says.
@Suite("Bodies are read as the earlier release read them, if that is asked for")
struct EarlierReadingTests {
    private static let (start, end) = ("2022-01-01", "2022-02-01")
    private static let row = newRow("1000000000000002", start, end)

    struct Dates: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let row: JSON
        let now: String?
        let before: String?
    }

    /// The end of a row by both readings.
    static let ends = [
        Dates(testDescription: "milliseconds, as ever", row: row, now: end, before: end),
        Dates(
            testDescription: "zero, and a formatted date", row: row.with(["expires_date_ms": "0"]), now: end,
            before: "1970-01-01"),
        Dates(
            testDescription: "nine digits, and a formatted date", row: row.with(["expires_date_ms": "164367360"]),
            now: end, before: "1970-01-02T21:39:27.360Z"),
        Dates(
            testDescription: "Pacific time alone",
            row: row.without("expires_date", "expires_date_ms")
                .with(["expires_date_pst": "2022-01-31 16:00:00 America/Los_Angeles"]), now: end, before: nil),
        Dates(
            testDescription: "RFC 3339",
            row: row.without("expires_date_ms").with(["expires_date": "2022-02-01T00:00:00Z"]), now: end, before: nil),
        Dates(
            testDescription: "a zone that was not known",
            row: row.without("expires_date_ms").with(["expires_date": "2022-02-01 00:00:00 Etc/UTC"]), now: end,
            before: nil),
        Dates(
            testDescription: "milliseconds with a fraction",
            row: row.without("expires_date").with(["expires_date_ms": "1643673600000.5"]), now: end, before: nil),
    ]

    private static func before(_ body: JSON) throws -> Event {
        try EarlierReading.$isInForce.withValue(true) { try body.event() }
    }

    @Test("an end", arguments: ends)
    func dates(_ dates: Dates) throws {
        let body = newBody("DID_RENEW", rows: [dates.row])

        #expect(try body.event().transactions.first?.expiresDate == dates.now.map { day($0) })
        #expect(try Self.before(body).transactions.first?.expiresDate == dates.before.map { day($0) })
    }

    @Test("renewal info that names no subscription was passed over")
    func renewalInfo() throws {
        let body = newBody(
            "DID_RENEW", rows: [Self.row], pending: [pending().without("original_transaction_id")]
        ).without("auto_renew_product_id", "auto_renew_status")

        let (now, before) = (try body.event(), try Self.before(body))

        #expect(now.renewals.count == 1 && before.renewals.isEmpty)
        #expect(now.fingerprint != before.fingerprint)
        #expect(before.defects.map(\.problem) == ["is missing, the element is passed over"])
    }

    @Test("a signed notification had no time but its own, no status beside its parts, and no seats")
    func signed() throws {
        let row = v2Row("1000000000000009", Self.start, Self.end)
        let undated = V2Body("DID_RENEW", at: "2022-01-02", row, v2Renewal()).changing {
            $0.payload["signedDate"] = nil
        }
        let statuses = [1, 2].map { V2Body("DID_RENEW", at: "2022-01-02", row, data: ["status": .raw(String($0))]) }
        let seats = V2Body("UNCLAIM_SEATS", at: "2022-01-02", about: "unclaimInfo", ["bundleId": .text(testBundle)])
        let odd = V2Body("DID_RENEW", at: "2022-01-02", row.with(["type": "Timed Lease"]), v2Renewal())
        func before(_ body: V2Body) throws -> Event {
            try EarlierReading.$isInForce.withValue(true) { try body.event() }
        }

        #expect(try undated.event().occurredAt == day("2022-01-02"))
        #expect(try before(undated).occurredAt == nil)
        for status in statuses {
            #expect(try status.event().renewals.count == 1)
            #expect(try before(status).renewals.isEmpty)
        }
        #expect(try seats.event().kind == .seatsUnclaimed)
        #expect(try before(seats).kind == .other)
        let problem = "is of no kind of product that this version knows"
        #expect(try before(odd).defects.contains { $0.problem == problem && $0.path.hasSuffix(".type") })
        #expect(try !odd.event().defects.contains { $0.problem == problem })
    }
}
