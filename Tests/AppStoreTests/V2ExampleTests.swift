import AppStore
import Encoding
import Subscriptions
import Testing

/// Apple's table 6-1 in signed notifications: each one contains one transaction.
enum V2MagazineVariant: CaseIterable, Sendable {
    case base, withoutExpired, rowARefunded, rowBRefunded, rowCRefunded, rowsAAndBRefunded, rowBReversed

    private static let rowA = v2Row("1000000000000001", "2018-02-20", "2018-03-20")
    private static let rowB = v2Row("1000000000000002", "2018-03-20", "2018-04-20")
    private static let rowC = v2Row("1000000000000003", "2018-06-17", "2018-07-17", reason: "PURCHASE")

    private static let story: [V2Body] = [
        V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", rowA, v2Renewal(), data: ["status": 1]),
        V2Body("DID_RENEW", at: "2018-03-20", rowB, v2Renewal(), data: ["status": 1]),
        V2Body(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", at: "2018-04-10", rowB, v2Renewal(autoRenew: false),
            data: ["status": 1]),
        V2Body(
            "EXPIRED", "VOLUNTARY", at: "2018-04-20", rowB, v2Renewal(autoRenew: false).with(["expirationIntent": 1]),
            data: ["status": 2]),
        V2Body("SUBSCRIBED", "RESUBSCRIBE", at: "2018-06-17", rowC, v2Renewal(), data: ["status": 1]),
    ]

    private static func refund(_ row: JSON, _ date: String) -> V2Body {
        V2Body("REFUND", at: date, row.refunded(date, type: "REFUND_FULL"), v2Renewal())
    }

    var bodies: [V2Body] {
        let story = Self.story
        return switch self {
        case .base: story
        case .withoutExpired: story.filter { $0.payload["notificationType"]?.plain != "EXPIRED" }
        case .rowARefunded: story + [Self.refund(Self.rowA, "2018-07-02")]
        case .rowBRefunded: story + [Self.refund(Self.rowB, "2018-07-02")]
        case .rowCRefunded: story + [Self.refund(Self.rowC, "2018-07-02")]
        case .rowsAAndBRefunded: story + [Self.refund(Self.rowA, "2018-07-02"), Self.refund(Self.rowB, "2018-07-03")]
        case .rowBReversed:
            story + [
                Self.refund(Self.rowB, "2018-07-02"),
                V2Body("REFUND_REVERSED", at: "2018-07-05", Self.rowB, v2Renewal()),
            ]
        }
    }

    var spans: [Span] {
        switch self {
        case .base, .withoutExpired, .rowBReversed:
            [Span("2018-02-20", "2018-04-20"), Span("2018-06-17", "2018-07-17")]
        case .rowARefunded: [Span("2018-03-20", "2018-04-20"), Span("2018-06-17", "2018-07-17")]
        case .rowBRefunded: [Span("2018-02-20", "2018-03-20"), Span("2018-06-17", "2018-07-17")]
        case .rowCRefunded: [Span("2018-02-20", "2018-04-20")]
        case .rowsAAndBRefunded: [Span("2018-06-17", "2018-07-17")]
        }
    }

    /// Months whose issue can be read at the end.
    var readable: [Int] {
        switch self {
        case .base, .withoutExpired, .rowBReversed: [2, 3, 4, 6, 7]
        case .rowARefunded: [3, 4, 6, 7]
        case .rowBRefunded: [2, 3, 6, 7]
        case .rowCRefunded: [2, 3, 4]
        case .rowsAAndBRefunded: [6, 7]
        }
    }

    var lapses: [Range<Instant>] {
        switch self {
        case .base, .withoutExpired, .rowBReversed, .rowARefunded: [day("2018-04-20")..<day("2018-06-17")]
        case .rowBRefunded: [day("2018-03-20")..<day("2018-06-17")]
        case .rowCRefunded, .rowsAAndBRefunded: []
        }
    }
}

@Suite("Worked example 1 in signed notifications: the magazine")
struct V2MagazineTests {
    @Test("access, lapses and issues match the table", arguments: V2MagazineVariant.allCases, Arrival.allCases)
    func result(variant: V2MagazineVariant, arrival: Arrival) throws {
        let issues = (1...8).map { day("2018-0\($0)-01") }

        let subscription = try folded(variant.bodies, arrival)

        #expect(subscription.spans == variant.spans)
        #expect(subscription.lapses == variant.lapses)
        let readable = subscription.contentAccess(issues: issues, at: day("2018-08-01")).filter { $0.reachedBy != nil }
        #expect(readable.map(\.publishedAt) == variant.readable.map { issues[$0 - 1] })
    }

    @Test(
        "the status just after each date matches the table",
        arguments: [
            ("2018-02-01", SubscriptionStatus.never), ("2018-02-20", .active), ("2018-03-20", .active),
            ("2018-04-09", .active),
            ("2018-04-10", .activeWillEnd), ("2018-04-19T23:59:59.999Z", .activeWillEnd), ("2018-04-20", .expired),
            ("2018-06-16T23:59:59.999Z", .expired), ("2018-06-17", .active), ("2018-07-16T23:59:59.999Z", .active),
            ("2018-07-17", .expired),
        ], Arrival.allCases)
    func status(expected: (date: String, status: SubscriptionStatus), arrival: Arrival) throws {
        let subscription = try folded(V2MagazineVariant.base.bodies, arrival)

        #expect(subscription.status(at: day(expected.date)) == expected.status)
    }
}

/// Apple's table 6-2: a renewal fails on Apr 20 and is paid on May 5.
enum V2Grace: CaseIterable, Sendable {
    case none, days3, days16, days28

    var end: String? {
        switch self {
        case .none: nil
        case .days3: "2018-04-23"
        case .days16: "2018-05-06"
        case .days28: "2018-05-18"
        }
    }

    private static let rowA = v2Row("1000000000000001", "2018-02-20", "2018-03-20")
    private static let rowB = v2Row("1000000000000002", "2018-03-20", "2018-04-20")

    var untilFailure: [V2Body] {
        [
            V2Body("SUBSCRIBED", "INITIAL_BUY", at: "2018-02-20", Self.rowA, v2Renewal(), data: ["status": 1]),
            V2Body("DID_RENEW", at: "2018-03-20", Self.rowB, v2Renewal(), data: ["status": 1]),
            V2Body(
                "DID_FAIL_TO_RENEW", end == nil ? nil : "GRACE_PERIOD", at: "2018-04-20", Self.rowB,
                v2Renewal().failing(graceUntil: end), data: ["status": end == nil ? 3 : 4]),
        ]
    }

    /// - Parameter graceStays: Whether renewal info after the end of grace still contains it.
    func graceOver(graceStays: Bool) -> [V2Body] {
        guard let end else { return [] }
        let renewal = v2Renewal().failing(graceUntil: graceStays ? end : nil)
        return [V2Body("GRACE_PERIOD_EXPIRED", at: end, Self.rowB, renewal, data: ["status": 3])]
    }

    /// - Parameter purchase: Purchase date of the row paid inside grace: the payment or the end of the failed period.
    func recovered(purchase: String, graceStays: Bool) -> [V2Body] {
        let inGrace = self == .days16 || self == .days28
        let rowC = v2Row("1000000000000003", inGrace ? purchase : "2018-05-05", inGrace ? "2018-05-20" : "2018-06-05")
        let recovery = V2Body("DID_RENEW", "BILLING_RECOVERY", at: "2018-05-05", rowC, v2Renewal(), data: ["status": 1])
        if inGrace { return untilFailure + [recovery] }
        let rowD = v2Row("1000000000000004", "2018-06-05", "2018-07-05")
        return untilFailure + graceOver(graceStays: graceStays)
            + [recovery, V2Body("DID_RENEW", at: "2018-06-05", rowD, v2Renewal(), data: ["status": 1])]
    }

    func exhausted(graceStays: Bool) -> [V2Body] {
        var renewal = v2Renewal(autoRenew: false).with(["isInBillingRetryPeriod": false, "expirationIntent": 2])
        if graceStays, let end { renewal["gracePeriodExpiresDate"] = ms(end) }
        return untilFailure + graceOver(graceStays: graceStays)
            + [V2Body("EXPIRED", "BILLING_RETRY", at: "2018-06-19", Self.rowB, renewal, data: ["status": 2])]
    }
}

@Suite("Worked example 2 in signed notifications: the billing issue")
struct V2BillingIssueTests {
    @Test("access and lapses match the table for every grace setting", arguments: V2Grace.allCases, Arrival.allCases)
    func access(grace: V2Grace, arrival: Arrival) throws {
        for purchase in ["2018-05-05", "2018-04-20"] {
            for graceStays in [true, false] {
                let subscription = try folded(grace.recovered(purchase: purchase, graceStays: graceStays), arrival)

                let expected: (spans: [Span], lapses: [Range<Instant>]) =
                    switch grace {
                    case .none:
                        (
                            [Span("2018-02-20", "2018-04-20"), Span("2018-05-05", "2018-07-05")],
                            [day("2018-04-20")..<day("2018-05-05")]
                        )
                    case .days3:
                        (
                            [Span("2018-02-20", "2018-04-23"), Span("2018-05-05", "2018-07-05")],
                            [day("2018-04-23")..<day("2018-05-05")]
                        )
                    case .days16, .days28: ([Span("2018-02-20", "2018-05-20")], [])
                    }
                #expect(subscription.spans == expected.spans, "\(purchase), \(graceStays)")
                #expect(subscription.lapses == expected.lapses, "\(purchase), \(graceStays)")
            }
        }
    }

    @Test(
        "access on each date of the table matches the table",
        arguments: [
            ("2018-04-19", [SubscriptionStatus.active, .active, .active, .active]),
            ("2018-04-20", [.retry, .grace, .grace, .grace]),
            ("2018-04-22", [.retry, .grace, .grace, .grace]), ("2018-04-23", [.retry, .retry, .grace, .grace]),
            ("2018-05-04", [.retry, .retry, .grace, .grace]), ("2018-05-05", [.active, .active, .active, .active]),
            ("2018-05-19", [.active, .active, .active, .active]),
        ], Arrival.allCases)
    func questions(expected: (date: String, statuses: [SubscriptionStatus]), arrival: Arrival) throws {
        for (grace, status) in zip(V2Grace.allCases, expected.statuses) {
            let subscription = try folded(grace.recovered(purchase: "2018-05-05", graceStays: false), arrival)

            #expect(subscription.status(at: day(expected.date)) == status, "\(grace)")
            #expect(subscription.isActive(at: day(expected.date)) == [.active, .grace].contains(status), "\(grace)")
        }
    }

    @Test("sixty days of retry end in expired", arguments: V2Grace.allCases, Arrival.allCases)
    func exhausted(grace: V2Grace, arrival: Arrival) throws {
        for graceStays in [true, false] {
            let subscription = try folded(grace.exhausted(graceStays: graceStays), arrival)

            #expect(subscription.spans == [Span("2018-02-20", grace.end ?? "2018-04-20")])
            #expect(subscription.status(at: day("2018-06-18T23:59:59.999Z")) == .retry)
            #expect(subscription.renewal(at: day("2018-06-18")).autoRenewStatus == true)
            #expect(subscription.status(at: day("2018-06-19")) == .expired)
            #expect(subscription.renewal(at: day("2018-06-19")).expirationIntent == 2)
        }
    }
}
