import AppStore
import Encoding
import Simulation
import Subscriptions
import Testing

@Suite("Notifications about seats")
struct SeatNotificationTests {
    private static let date = "2026-11-20"
    private static let row = v2Row("2000000000000002", "2026-11-01", "2026-12-01")

    @Test(
        "have the kinds of their types",
        arguments: [
            ("REFUND", "SEATS", EventKind.refund), ("DID_CHANGE_RENEWAL_PREF", "INCREASE_QUANTITY", .planChange),
            ("DID_CHANGE_RENEWAL_PREF", "DECREASE_QUANTITY", .planChange),
        ])
    func kinds(_ type: String, _ subtype: String, _ kind: EventKind) throws {
        let event = try V2Body(type, subtype, at: Self.date, Self.row).event()

        #expect(event.kind == kind)
        #expect(event.transactions.count == 1)
    }

    @Test("keep what they say of seats, as known fields")
    func fields() throws {
        let row = Self.row.with([
            "multiSeatInfo": [
                "invitationManagement": "APPLE", "priceTiers": .raw(#"[{"price":1000,"quantity":3}]"#),
                "revokedSeatQuantity": 1,
            ],
            "additionalTransactionReason": "SEAT_ADDITION", "quantity": 3,
        ])
        let event = try V2Body("SUBSCRIBED", "INITIAL_BUY", at: Self.date, row).event()

        #expect(event.unknownFields.isEmpty)
        #expect(event.defects.isEmpty)
        #expect(event.transactions.first?.quantity == 3)
        #expect(event.transactions.first?.isForAddedSeats == true)
        #expect(event.transactions.first?.priceOfSeats == 3000)
        // A refund of some seats revokes nothing.
        #expect(event.transactions.first?.revocationDate == nil)
    }

    /// What Apple says about seats that it took back.
    private static func unclaimed(_ members: KeyValuePairs<String, JSON> = [:]) -> JSON {
        let seats: JSON = ["unclaimSeatIds": .raw(#"["48ccfa42-7431-4f22-9908-7e88983e105a"]"#)]
        return seats.with(members)
    }

    @Test("UNCLAIM_SEATS is a kind of its own, with and without a bundle id in its object")
    func unclaimedSeats() throws {
        let named = Self.unclaimed(["bundleId": .text(testBundle), "environment": "Sandbox"])
        var outside = V2Body("UNCLAIM_SEATS", at: Self.date, about: "unclaimInfo", Self.unclaimed())
        outside.payload["bundleId"] = .text(testBundle)
        var beside = V2Body("UNCLAIM_SEATS", at: Self.date)
        beside.payload["unclaimInfo"] = Self.unclaimed()
        for body in [V2Body("UNCLAIM_SEATS", at: Self.date, about: "unclaimInfo", named), outside, beside] {
            let event = try body.event()
            #expect(event.kind == .seatsUnclaimed)
            #expect(event.app == testBundle)
            #expect(event.transactions.isEmpty)
            #expect(event.unknownFields.filter { $0.hasPrefix("unclaimInfo") }.isEmpty)
        }
        #expect(try V2Body("UNCLAIM_SEATS", at: Self.date, about: "unclaimInfo", named).event().environment == .sandbox)
    }
}

@Suite("Periods of no length")
struct PeriodWithoutDurationTests {
    @Test("V2: the dates have a defect", arguments: ["2025-03-01", "2025-02-28"])
    func signed(_ end: String) throws {
        let event = try V2Body(
            "SUBSCRIBED", "INITIAL_BUY", at: "2025-03-01", v2Row("2000000000000002", "2025-03-01", end)
        ).event()

        #expect(event.defects.map(\.path) == ["data.signedTransactionInfo.expiresDate"])
        #expect(event.transactions.count == 1)
    }

    @Test("V1: so have those of a receipt's row, and no others")
    func receipt() throws {
        for (end, isDefect) in [("2021-03-01", true), ("2021-02-28", true), ("2021-03-02", false)] {
            let event = try newBody("INITIAL_BUY", rows: [newRow("1000000000000001", "2021-03-01", end)]).event()

            #expect(event.defects.contains { $0.path.hasSuffix("expires_date_ms") } == isDefect)
        }
    }
}
