import AppStore
import Subscriptions
import Testing

/// The notifications of one story in both versions.
struct StoryInBothVersions: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var unsigned: [JSON]
    var signed: [V2Body]
    var spans: [Span]

    private static let oldA = newRow("1000000000000001", "2018-02-20", "2018-03-20")
    private static let oldB = newRow("1000000000000002", "2018-03-20", "2018-04-20")
    private static let bought = newBody("INITIAL_BUY", rows: [oldA])
    private static let renewed = newBody("DID_RENEW", rows: [oldB, oldA])
    private static let signedBought = V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA, V2Action.on)
    private static let retrying = pending().with(["is_in_billing_retry_period": "1", "expiration_intent": "2"])

    private static func switched(_ on: Bool, _ date: String, rows: [JSON]) -> JSON {
        newBody("DID_CHANGE_RENEWAL_STATUS", rows: rows, pending: [pending(autoRenew: on ? "1" : "0")]).with([
            "auto_renew_status": on ? "true" : "false", "auto_renew_status_change_date": gmt(date),
            "auto_renew_status_change_date_ms": milliseconds(date),
        ])
    }

    static let all: [StoryInBothVersions] = [
        StoryInBothVersions(
            testDescription: "purchase and renewal", unsigned: [bought, renewed],
            signed: [signedBought, V2Action.renewed], spans: [Span("2018-02-20", "2018-04-20")]),
        StoryInBothVersions(
            testDescription: "the magazine",
            unsigned: [
                bought, renewed, switched(false, "2018-04-10", rows: [oldB, oldA]),
                switched(
                    true, "2018-06-17", rows: [newRow("1000000000000003", "2018-06-17", "2018-07-17"), oldB, oldA]),
            ],
            signed: V2MagazineVariant.base.bodies, spans: V2MagazineVariant.base.spans),
        StoryInBothVersions(
            testDescription: "refund of the older row",
            unsigned: [bought, renewed, newBody("CANCEL", rows: [oldB, cancelled(oldA, "2018-03-25")])],
            signed: [
                signedBought, V2Action.renewed,
                V2Body("REFUND", at: "2018-03-25", V2Action.rowA.refunded("2018-03-25"), V2Action.on),
            ],
            spans: [Span("2018-03-20", "2018-04-20")]),
        StoryInBothVersions(
            testDescription: "upgrade",
            unsigned: [
                bought,
                newBody(
                    "INTERACTIVE_RENEWAL",
                    rows: [
                        newRow("1000000000000002", "2018-03-01", "2018-04-01", product: premium),
                        cancelled(oldA, "2018-03-01").with(["is_upgraded": "true"]),
                    ], pending: [pending(next: premium).with(["product_id": .text(premium)])]),
            ],
            signed: [signedBought, V2Action.upgraded], spans: [Span("2018-02-20", "2018-04-01")]),
        StoryInBothVersions(
            testDescription: "recovery inside grace",
            unsigned: [
                bought,
                newBody(
                    "DID_FAIL_TO_RENEW", rows: [oldA],
                    pending: [retrying.with(["grace_period_expires_date_ms": milliseconds("2018-04-05")])]),
                newBody("DID_RECOVER", rows: [oldB, oldA]),
            ],
            signed: [
                signedBought, V2Action.failedInGrace,
                V2Body("DID_RENEW", "BILLING_RECOVERY", at: "2018-03-30", V2Action.rowB, V2Action.on),
            ],
            spans: [Span("2018-02-20", "2018-04-20")]),
        StoryInBothVersions(
            testDescription: "family member loses access",
            unsigned: [
                bought,
                newBody(
                    "REVOKE", rows: [cancelled(oldA, "2018-03-01").with(["in_app_ownership_type": "FAMILY_SHARED"])]),
            ],
            signed: [
                signedBought,
                V2Body(
                    "REVOKE", at: "2018-03-01",
                    V2Action.rowA.refunded("2018-03-01").with(["inAppOwnershipType": "FAMILY_SHARED"])),
            ],
            spans: [Span("2018-02-20", "2018-03-01")]),
    ]
}

/// Invariant 12: a URL may be changed from version 1 to version 2 during a subscription, and both versions report it.
@Suite("One subscription in both versions")
struct V2AgreementTests {
    private func periods(_ events: [Event]) throws -> Set<[String]> {
        let access = try MemoryLedger(arriving: events).subscription().access
        #expect(Set(access.map { [$0.transactionId, $0.cause.rawValue] }).count == access.count, "no period twice")
        return Set(access.map { [$0.transactionId, $0.cause.rawValue, $0.start.description, $0.end.description] })
    }

    @Test(
        "both versions together give the same periods as each alone", arguments: StoryInBothVersions.all,
        Arrival.allCases)
    func both(story: StoryInBothVersions, arrival: Arrival) throws {
        let unsigned = try story.unsigned.map { try $0.event(receivedAt: day("2018-08-01")) }
        let signed = try story.signed.map { try $0.event() }

        let periods = try periods(signed)

        #expect(try self.periods(unsigned) == periods)
        #expect(try self.periods(arrival.arrange(unsigned + signed)) == periods)
        #expect(try self.periods(arrival.arrange(signed + unsigned)) == periods)
        #expect(try MemoryLedger(arriving: arrival.arrange(signed + unsigned)).subscription().spans == story.spans)
    }

    @Test(
        "switching from one version to the other after any notification gives the same access",
        arguments: StoryInBothVersions.all)
    func changeover(story: StoryInBothVersions) throws {
        let unsigned = try story.unsigned.map { try $0.event(receivedAt: day("2018-08-01")) }
        let signed = try story.signed.map { try $0.event() }
        guard unsigned.count == signed.count else { return }

        for count in 0...unsigned.count {
            let events = Array(unsigned[..<count] + signed[count...])
            for arrival in Arrival.allCases {
                let spans = try MemoryLedger(arriving: arrival.arrange(events)).subscription().spans
                #expect(spans == story.spans, "switched after \(count), \(arrival)")
            }
        }
    }

    @Test(
        "a refund reported by version 1 is reversed by version 2, unless that arrived before it",
        arguments: Arrival.allCases)
    func reversed(arrival: Arrival) throws {
        let row = newRow("1000000000000001", "2018-02-20", "2018-03-20")
        let refund = try newBody("CANCEL", rows: [cancelled(row, "2018-03-01")]).event(receivedAt: day("2018-03-01"))
        let signed = try [
            V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", V2Action.rowA, V2Action.on),
            V2Body("REFUND_REVERSED", at: "2018-03-05", V2Action.rowA),
        ].map { try $0.event() }

        let arrived = arrival.arrange([refund] + signed)

        let subscription = try MemoryLedger(arriving: arrived).subscription()

        // A statement that arrived before the cancellation does not take it back.
        let keys = arrived.map(\.dedupeKey)
        let isLater = keys.firstIndex(of: refund.dedupeKey)! < keys.firstIndex(of: signed[1].dedupeKey)!
        #expect(subscription.spans == (isLater ? [Span("2018-02-20", "2018-03-20")] : []))
    }
}
