import Encoding
import Testing

@testable import Subscriptions

@Suite("Access that is given by hand, as a statement and as a fact")
struct GrantStatementTests {
    private static func at(_ day: String) -> Instant { Instant(iso8601: "\(day)T00:00:00Z") ?? .earliest }

    private static func grant(
        id: String = "g-1", customer: String = "u-1", entitlement: String = "plus", from: String = "2026-11-01",
        until: String? = "2026-11-11", reason: String = "case 1", by: String? = "anna", isRevocation: Bool = false
    ) throws(GrantStatement.Malformed) -> GrantStatement {
        try GrantStatement(
            id: id, customerId: customer, entitlement: entitlement, from: at(from), until: until.map(at),
            reason: reason, by: by, isRevocation: isRevocation)
    }

    /// What the statements about one grant give, each a millisecond after the one before, arriving in some order.
    private static func access(
        _ grants: [GrantStatement], arriving order: [Int], products: ProductCatalog = .empty
    ) -> [ClosedRange<Instant>] {
        var ledger = MemoryLedger()
        for index in order {
            let statedAt = at("2026-11-05").advanced(byMilliseconds: Int64(index))
            let event = grants[index].event(
                source: .operator, environment: .production, app: "a", receivedAt: statedAt,
                dedupeKey: DedupeKey(bytes: Array(repeating: UInt8(index + 1), count: 32)))
            ledger.append(event, receivedAt: statedAt)
        }
        return ledger.subscriptions(products: ["a": products]).flatMap(\.subscription.access).map { $0.start...$0.end }
    }

    @Test("the last statement counts as a whole, whatever arrives first: another end, none, an end that was taken back")
    func fold() throws {
        let ten = try Self.grant()
        let ever = try Self.grant(until: nil)
        let revoked = try Self.grant(until: "2026-11-05", isRevocation: true)
        let period = Self.at("2026-11-01")

        for (grants, end) in [
            ([ten], "2026-11-11"), ([ten, try Self.grant(until: "2026-12-01")], "2026-12-01"),
            ([ten, revoked], "2026-11-05"), ([ten, revoked, ten], "2026-11-11"),
        ] {
            let expected = [period...Self.at(end)]
            #expect(Self.access(grants, arriving: Array(grants.indices)) == expected)
            #expect(Self.access(grants, arriving: grants.indices.reversed()) == expected)
        }
        for grants in [[ever], [ten, ever], [ten, revoked, ever]] {
            #expect(Self.access(grants, arriving: Array(grants.indices)) == [period...Instant.latest])
            #expect(Self.access(grants, arriving: grants.indices.reversed()) == [period...Instant.latest])
        }
        // Taken back before it began.
        let before = try Self.grant(from: "2026-11-09", until: "2026-11-05", isRevocation: true)
        #expect(Self.access([try Self.grant(from: "2026-11-09"), before], arriving: [0, 1]) == [])
    }

    @Test("the canonical text is read back to the same statement, and so is its transaction")
    func roundTrip() throws {
        for grant in [
            try Self.grant(), try Self.grant(until: nil, by: nil), try Self.grant(isRevocation: true),
            try Self.grant(customer: "ü \"1\"", reason: "said: \"yes\""),
        ] {
            let json = try JSONDocument(grant.canonicalText).root
            let event = grant.event(
                source: .backend, environment: .production, app: "a", receivedAt: Self.at("2026-11-01"),
                dedupeKey: DedupeKey(bytes: [1]))

            #expect(GrantStatement(body: json) == grant)
            #expect(GrantStatement(of: event.transactions[0]) == grant)
            #expect(event.kind == (grant.isRevocation ? .grantRevoked : .grant))
        }
    }

    @Test("an id has only letters, digits, dots, hyphens and underscores; texts are lines")
    func malformed() throws {
        for id in ["", "a b", "grant:1", "ä", String(repeating: "a", count: 65)] {
            #expect(throws: GrantStatement.Malformed.self) { try Self.grant(id: id) }
        }
        for text in ["", " ", "a\nb", String(repeating: "a", count: 501)] {
            #expect(throws: GrantStatement.Malformed.self) { try Self.grant(reason: text) }
            #expect(throws: GrantStatement.Malformed.self) { try Self.grant(by: text) }
        }
        #expect(throws: GrantStatement.Malformed.self) { try Self.grant(until: "2026-11-01") }
        #expect(try Self.grant(until: "2026-10-31", isRevocation: true).isRevocation)
    }
}
