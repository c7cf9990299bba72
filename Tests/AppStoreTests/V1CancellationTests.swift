import AppStore
import Encoding
import Subscriptions
import TestSupport
import Testing

/// Bodies of version 1 have no date of their own, and a real cancellation was made 13 to 15 minutes after its date.
@Suite("V1: only a statement that is later in both times, stated and received, takes a cancellation back")
struct V1CancellationTests {
    private static let refundedAt = "2022-03-01T10:00:00Z"
    private let row = newRow("1000000000000001", "2022-02-15", "2022-03-15")
    private var cancel: JSON { newBody("CANCEL", rows: [cancelled(row, Self.refundedAt)]) }

    private func status(_ autoRenew: String, at date: String, rows: [JSON]? = nil) -> JSON {
        newBody("DID_CHANGE_RENEWAL_STATUS", rows: rows ?? [row], pending: [pending(autoRenew: autoRenew)]).with([
            "auto_renew_status": .text(autoRenew == "1" ? "true" : "false"),
            "auto_renew_status_change_date": gmt(date), "auto_renew_status_change_date_ms": milliseconds(date),
        ])
    }

    private func subscription(_ bodies: [JSON]) throws -> Subscription {
        try MemoryLedger(arriving: bodies.map { try $0.event() }).subscription()
    }

    @Test("a repeat of a stored body, received after a cancellation of the same second, takes nothing back")
    func repeated() throws {
        let off = status("0", at: Self.refundedAt)

        for bodies in [[off, cancel], [off, cancel, off], [off, cancel, off, cancel, off]] {
            let subscription = try subscription(bodies)

            #expect(subscription.access == [])
            #expect(subscription.status(at: day("2022-03-02")) == .refunded)
        }
    }

    @Test("a repeat of a body with a later date does not take back what was received after the first")
    func repeatedLater() throws {
        let on = status("1", at: "2022-03-01T11:00:00Z")

        #expect(try subscription([on, cancel, on]).access == [])
    }

    @Test("another body of the same second does not take a cancellation back, whichever arrives last")
    func sameSecond() throws {
        let off = status("0", at: "2022-03-01T10:00:00.900Z")

        #expect(try subscription([cancel, off]).access == [])
        #expect(try subscription([off, cancel]).access == [])
    }

    @Test("a cancellation that arrives last is dated before the statements that arrived before it")
    func arrivingLast() throws {
        let subscription = try subscription([
            status("0", at: Self.refundedAt), status("1", at: "2022-03-01T11:00:00Z"), cancel,
        ])

        #expect(subscription.access == [])
        #expect(subscription.status(at: day("2022-03-02")) == .refunded)
    }

    @Test("a statement that is later in both times takes a cancellation back")
    func takenBack() throws {
        let renewed = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-03-15", "2022-04-15"), row])

        let subscription = try subscription([cancel, renewed])

        #expect(subscription.spans == [Span("2022-02-15", "2022-04-15")])
    }

    @Test("the cancellation of one copy of a purchase stands against an earlier statement about another")
    func copies() throws {
        let copy = newRow("1000000000000009", "2022-02-15", "2022-03-15").with([
            "web_order_line_item_id": "91000000000000001"
        ])
        let both = status("1", at: "2022-03-01T11:00:00Z", rows: [row, copy])

        #expect(try subscription([both, cancel]).access == [])
    }

    @Test("the order in which reports are folded does not matter, only when they were received")
    func anyFoldOrder() throws {
        let events = try [
            status("0", at: Self.refundedAt), cancel, status("1", at: "2022-03-01T11:00:00Z"),
            status("0", at: "2022-03-01T09:00:00Z"), newBody("DID_RENEW", rows: [row]),
        ].map { try $0.event() }
        // The cancellation arrives last.
        let arrivals: [Int64] = [0, 4, 2, 1, 3]
        var known: (access: [AccessPeriod], facts: [UInt8])?
        for order in permutations(of: Array(events.indices)) {
            var facts = SubscriptionFacts(originalTransactionId: testSubscription)
            for place in order {
                facts.fold(
                    events[place].facts, occurredAt: events[place].occurredAt,
                    receivedAt: day("2022-03-03").advanced(byMilliseconds: arrivals[place]),
                    position: Int64(place + 1))
            }
            var writer = JSONWriter(bytesExpected: 4096)
            facts.write(to: &writer)
            let text = Array(writer.bytes)
            let read = try SubscriptionFacts(
                originalTransactionId: testSubscription, json: try JSONDocument(text).root)
            #expect(read == facts)
            let access = Subscription(facts).access
            #expect(known?.access ?? access == access)
            #expect(known?.facts ?? text == text)
            known = (access, text)
        }
        #expect(known?.access == [])
    }

    // MARK: Checks

    private func nextCheck(_ bodies: [(JSON, String)]) throws -> StoreCheck? {
        var ledger = MemoryLedger()
        for (body, date) in bodies {
            ledger.append(try body.event(receivedAt: day(date)), receivedAt: day(date))
        }
        let subscription = try ledger.subscription()
        return subscription.nextCheck(after: subscription.reports.latestAt, policy: .standard)
    }

    @Test("soon after a contradiction, the App Store is asked which statement is right")
    func checked() throws {
        let off = (status("0", at: Self.refundedAt), "2022-03-01T10:00:05Z")
        let on = (status("1", at: "2022-03-01T11:00:00Z"), "2022-03-01T11:00:05Z")
        let late = (cancel, "2022-03-01T11:14:00Z")

        #expect(try nextCheck([off, on, late])?.dueAt == day("2022-03-01T11:19:00Z"))
        // A cancellation that arrives in order contradicts nothing.
        #expect(try nextCheck([off, (cancel, "2022-03-01T10:14:00Z")]) == nil)
        // What is received later settles it.
        let renewed = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-03-15", "2022-04-15"), row])
        #expect(
            try nextCheck([off, on, late, (renewed, "2022-03-15T00:01:00Z")])?.dueAt == day("2022-04-15T01:00:00Z"))
    }
}
