import AppStore
import Subscriptions
import TestSupport
import Testing

/// The numbered quirks of the V1 format that concern whole bodies (16, 17, 20 to 26, 33, 38, 42 to 44).
@Suite("V1 quirks: bodies")
struct V1BodyQuirkTests {
    private let rows = [
        newRow("1000000000000003", "2022-03-01", "2022-04-01"), newRow("1000000000000002", "2022-02-01", "2022-03-01"),
        newRow("1000000000000001", "2022-01-01", "2022-02-01"),
    ]

    @Test("the order of rows and of renewals does not matter (quirk 16)")
    func rowOrder() throws {
        let infos = [pending(), pending(autoRenew: "0", subscription: "3000000000000001")]
        let first = try newBody("DID_RENEW", rows: rows, pending: infos).event()

        for order in permutations(of: rows) {
            let event = try newBody("DID_RENEW", rows: order, pending: infos.reversed()).event()

            #expect(Set(event.transactions) == Set(first.transactions))
            #expect(Set(event.renewals) == Set(first.renewals))
            #expect(event.occurredAt == day("2022-03-01"))
            #expect(event.fingerprint == first.fingerprint)
            #expect(fold([event]).access == fold([first]).access)
        }
    }

    @Test("rows and renewals of several subscriptions are assigned to their subscriptions (quirk 17)")
    func severalSubscriptions() throws {
        let event = try event(fixture: "v1-did-renew-two-subscriptions")

        let subscriptions = Dictionary(grouping: event.transactions, by: \.originalTransactionId)
        #expect(
            subscriptions.mapValues { Set($0.map(\.transactionId)) } == [
                "1000000000000001": ["1000000000000001", "1000000000000002"], "3000000000000001": ["3000000000000002"],
                "4000000000000001": ["4000000000000001"],
            ])
        #expect(event.transactions.first { $0.originalTransactionId == "4000000000000001" }?.expiresDate == nil)
        #expect(event.renewals.first { $0.originalTransactionId == "1000000000000001" }?.autoRenewStatus == true)
        #expect(event.renewals.first { $0.originalTransactionId == "3000000000000001" }?.autoRenewStatus == false)
        #expect(event.renewals.count == 2)
        #expect(event.defects == [])
    }

    @Test(
        "top-level fields are not applied to a subscription with renewal info of its own (quirk 17)")
    func topLevelFieldsOfAnotherSubscription() throws {
        let other = newRow(
            "3000000000000001", "2022-01-15", "2022-02-15", product: premium, subscription: "3000000000000001")
        let infos = [pending(autoRenew: "0"), pending(autoRenew: "1", next: premium, subscription: "3000000000000001")]
        let body = newBody("DID_CHANGE_RENEWAL_STATUS", rows: [rows[2], other], pending: infos)
            .with(["auto_renew_status": "false", "auto_renew_status_change_date_ms": milliseconds("2022-01-20")])

        let event = try body.event()

        let untouched = event.renewals.first { $0.originalTransactionId == "3000000000000001" }
        #expect(untouched?.autoRenewStatus == true)
        #expect(untouched?.autoRenewStatusChangeDate == nil)
        #expect(untouched?.autoRenewProductId == premium)
    }

    @Test("the time of an event comes from its content, not from its arrival (quirk 20)")
    func occurredAt() throws {
        let body = newBody("DID_RENEW", rows: rows)

        let early = try body.event(receivedAt: day("2022-03-02"))
        let late = try body.event(receivedAt: day("2024-01-01"))

        #expect(early.occurredAt == day("2022-03-01"))
        #expect(late == early)
    }

    @Test("the time of an event is the newest of its dates, except future purchases")
    func newestDate() throws {
        let switched = newBody("DID_CHANGE_RENEWAL_STATUS", rows: rows)
            .with(["auto_renew_status_change_date_ms": milliseconds("2022-03-05")])
        let cancelledLater = newBody("CANCEL", rows: [cancelled(rows[0], "2022-03-07"), rows[1]])
        let cancelledEarlier = newBody("CANCEL", rows: [rows[0], cancelled(rows[1], "2022-02-07")])
        let failed = newBody("DID_FAIL_TO_RENEW", rows: rows)
        let early = newBody("DID_RENEW", rows: rows)

        #expect(try switched.event().occurredAt == day("2022-03-05"))
        #expect(try cancelledLater.event().occurredAt == day("2022-03-07"))
        #expect(try cancelledEarlier.event().occurredAt == day("2022-03-01"))
        #expect(try failed.event().occurredAt == day("2022-04-01"))
        #expect(try early.event(receivedAt: day("2022-02-28T06:00:00Z")).occurredAt == day("2022-02-01"))
    }

    @Test("an event without any date has no time")
    func noDate() throws {
        let event = try newBody("PRICE_INCREASE_CONSENT", rows: []).event()

        #expect(event.occurredAt == nil)
    }

    @Test("CANCEL of an upgraded product is a change of plan, not a refund (quirk 21)")
    func cancelForUpgrade() throws {
        let event = try event(fixture: "v1-cancel-upgrade-old")

        #expect(event.kind == .planChange)
        #expect(event.transactions.map(\.isUpgraded) == [true])
        #expect(event.transactions.map(\.revocationDate) == [day("2019-05-11")])
        #expect(event.transactions.map(\.revocationReason) == [0])
        #expect(fold([event]).isActive(at: day("2019-05-10T23:59:59Z")))
        #expect(!fold([event]).isActive(at: day("2019-05-11")))
        #expect(fold([event]).status(at: day("2019-05-12")) != .refunded)
    }

    @Test("a row without is_upgraded is not upgraded (quirk 22)")
    func notUpgraded() throws {
        let event = try newBody("DID_RENEW", rows: rows).event()

        #expect(event.transactions.allSatisfy { !$0.isUpgraded })
    }

    @Test("switching renewal off is not a cancellation, and the period continues (quirks 23, 31)")
    func switchOff() throws {
        let body = newBody("DID_CHANGE_RENEWAL_STATUS", rows: [rows[2]], pending: [pending(autoRenew: "0")])
            .with(["auto_renew_status": "false", "auto_renew_status_change_date_ms": milliseconds("2022-01-20")])

        let event = try body.event()

        #expect(event.kind == .autoRenewChange)
        #expect(event.transactions.allSatisfy { $0.revocationDate == nil })
        #expect(event.renewals.first?.autoRenewStatus == false)
        #expect(event.renewals.first?.autoRenewStatusChangeDate == day("2022-01-20"))
        #expect(fold([event]).status(at: day("2022-01-31T23:59:59Z")) == .activeWillEnd)
    }

    @Test("renewal switched on gives no access after the expiry (quirks 31, 34)")
    func statusIsNoEntitlement() throws {
        let event = try newBody("INITIAL_BUY", rows: [rows[2]]).event()

        #expect(event.renewals.first?.autoRenewStatus == true)
        #expect(!fold([event]).isActive(at: day("2022-02-01")))
    }

    @Test("a split history gives two subscriptions, each with its own receipt rows (quirk 25)")
    func splitHistory() throws {
        let restored = newRow("2000000000000001", "2022-02-01", "2022-03-01", subscription: "2000000000000001")
        let event = try newBody("DID_RENEW", rows: [restored, rows[2]]).event()

        let first = fold([event])
        let second = fold([event], subscription: "2000000000000001")

        #expect(first.transactions.map(\.transaction.transactionId) == ["1000000000000001"])
        #expect(second.transactions.map(\.transaction.transactionId) == ["2000000000000001"])
        #expect(second.isActive(at: day("2022-02-10")) && !first.isActive(at: day("2022-02-10")))
    }

    @Test(
        "each documented type has its kind (quirk 26: RENEWAL is a recovery)",
        arguments: [
            ("INITIAL_BUY", EventKind.purchase), ("DID_RENEW", .renewal), ("RENEWAL", .recovery),
            ("DID_RECOVER", .recovery),
            ("DID_FAIL_TO_RENEW", .renewalFailure), ("DID_CHANGE_RENEWAL_PREF", .planChange),
            ("DID_CHANGE_RENEWAL_STATUS", .autoRenewChange), ("REFUND", .refund), ("REVOKE", .revoke),
            ("PRICE_INCREASE_CONSENT", .priceConsent), ("CONSUMPTION_REQUEST", .consumptionRequest),
        ])
    func kinds(type: String, kind: EventKind) throws {
        let isCancellation = [.refund, .revoke].contains(kind)
        let rows = isCancellation ? [cancelled(rows[0], "2022-03-07")] + rows.dropFirst() : rows

        let event = try newBody(type, rows: rows).event()

        #expect(event.type == type)
        #expect(event.kind == kind)
        #expect(event.defects == [])
    }

    @Test(
        "every documented sandbox type decodes in the sandbox (quirk 33)",
        arguments: [
            "INITIAL_BUY", "DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_STATUS", "DID_RECOVER", "INTERACTIVE_RENEWAL",
            "DID_RENEW", "CANCEL", "REFUND",
        ])
    func sandbox(type: String) throws {
        let event = try newBody(type, rows: rows, environment: "Sandbox").event()

        #expect(event.environment == .sandbox)
        #expect(event.kind != .other)
    }

    @Test(
        "an unknown type keeps its name and has kind other (quirk 38)", arguments: ["SOMETHING_NEW", "did_renew"])
    func unknownType(type: String) throws {
        let event = try newBody(type, rows: []).event()

        #expect(event.type == type)
        #expect(event.kind == .other)
        #expect(event.defects == [])
    }

    @Test("a refund affects only its own row (quirk 42)")
    func refundedRow() throws {
        let event = try event(fixture: "v1-cancel-refund")

        #expect(event.kind == .refund)
        let revocations = event.transactions.reduce(into: [:]) { $0[$1.transactionId] = $1.revocationDate }
        #expect(revocations == ["1000000000000002": day("2021-10-11T09:08:07Z")])
        #expect(event.transactions.first { $0.transactionId == "1000000000000002" }?.revocationReason == 1)
        #expect(event.occurredAt == day("2021-10-11T09:08:08Z"))
        #expect(fold([event]).isActive(at: day("2021-09-15")))
        #expect(!fold([event]).isActive(at: day("2021-10-05")))
        #expect(fold([event]).status(at: day("2021-10-12")) == .refunded)
    }

    @Test("a consumption request with empty strings and arrays has no facts and no defects (quirk 43)")
    func consumptionRequest() throws {
        let event = try event(fixture: "v1-consumption-request-empty")

        #expect(event.kind == .consumptionRequest)
        #expect(event.transactions == [] && event.renewals == [] && event.defects == [])
        #expect(event.app == testBundle)
        #expect(event.occurredAt == nil)
    }

    @Test("cancelled rows are kept and give no access (quirk 44)")
    func cancelledRowsStay() throws {
        let old = cancelled(rows[2], "2022-01-10")

        let event = try newBody("DID_RENEW", rows: [rows[0], rows[1], old]).event()

        #expect(event.transactions.count == 3)
        #expect(fold([event]).transactions.count == 3)
        #expect(!fold([event]).isActive(at: day("2022-01-15")))
        #expect(fold([event]).isActive(at: day("2022-02-01")))
    }

    @Test("a body with an old and a unified receipt gives each transaction and the renewal once")
    func bothGenerations() throws {
        let event = try event(fixture: "v1-did-recover-both-generations")

        #expect(event.app == testBundle)
        #expect(
            event.transactions.map(\.transactionId).sorted()
                == ["1000000000000001", "1000000000000002", "1000000000000003"])
        let newest = try #require(event.transactions.first { $0.transactionId == "1000000000000003" })
        #expect(newest.purchaseDate == day("2020-11-09T10:00:00Z"))
        #expect(newest.expiresDate == day("2020-12-09T10:00:00Z"))
        #expect(newest.inAppOwnershipType == "PURCHASED")
        #expect(event.renewals.count == 1)
        #expect(event.renewals.first?.autoRenewStatus == true)
        #expect(event.defects == [])
    }

    @Test("a failed renewal with grace gives retry, intent and the end of grace")
    func failedWithGrace() throws {
        let event = try event(fixture: "v1-did-fail-to-renew-grace")

        let renewal = try #require(event.renewals.first)
        #expect(renewal.isInBillingRetryPeriod == true)
        #expect(renewal.expirationIntent == 2)
        #expect(renewal.gracePeriodExpiresDate == day("2021-11-17"))
        #expect(renewal.autoRenewStatus == true)
        #expect(event.occurredAt == day("2021-11-01"))
    }

    @Test("a pending price increase has consent status 0")
    func priceConsent() throws {
        let event = try newBody("PRICE_INCREASE_CONSENT", rows: rows)
            .withPending(["price_consent_status": "0"]).event()

        #expect(event.renewals.first?.priceIncreaseStatus == 0)
    }

    @Test("a scheduled change of plan gives the current and the next product")
    func scheduledChange() throws {
        let event = try newBody("DID_CHANGE_RENEWAL_PREF", rows: rows, pending: [pending(next: premium)])
            .with(["auto_renew_product_id": .text(premium)]).event()

        #expect(event.renewals.first?.productId == monthly)
        #expect(event.renewals.first?.autoRenewProductId == premium)
    }
}
