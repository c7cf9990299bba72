import Subscriptions
import Testing

/// The magazine subscriber of Apple's table 6-1: two months, a lapse, another month. The example uses the year 2018.
struct MagazineExample {
    let rowA = row("1000000000000001", "2018-02-20", "2018-03-20")
    let rowB = row("1000000000000002", "2018-03-20", "2018-04-20")
    let rowC = row("1000000000000003", "2018-06-17", "2018-07-17")

    let on = intention(autoRenew: true)
    let off = intention(autoRenew: false) { $0.autoRenewStatusChangeDate = day("2018-04-10") }
    let onAgain = intention(autoRenew: true) { $0.autoRenewStatusChangeDate = day("2018-06-17") }

    var told: [Told] {
        [
            Told("2018-02-20", [rowA], [on]),
            Told("2018-03-20", [rowA, rowB], [on]),
            Told("2018-04-10", [rowA, rowB], [off]),
            Told("2018-06-17", [rowA, rowB, rowC], [onAgain]),
        ]
    }

    static let base = [Span("2018-02-20", "2018-04-20"), Span("2018-06-17", "2018-07-17")]
}

enum MagazineVariant: CaseIterable, Sendable {
    case base, rowARefunded, rowBRefunded, rowCRefunded, rowsAAndBRefunded, rowBReversed

    var told: [Told] {
        let example = MagazineExample()
        let (a, b, c, on) = (example.rowA, example.rowB, example.rowC, example.onAgain)
        let later: [Told] =
            switch self {
            case .base: []
            case .rowARefunded: [Told("2018-07-02", [a.refunded("2018-07-02"), b, c], [on])]
            case .rowBRefunded: [Told("2018-07-02", [a, b.refunded("2018-07-02"), c], [on])]
            case .rowCRefunded: [Told("2018-07-02", [a, b, c.refunded("2018-07-02")], [on])]
            case .rowsAAndBRefunded:
                [
                    Told("2018-07-02", [a.refunded("2018-07-02"), b, c], [on]),
                    Told("2018-07-03", [a.refunded("2018-07-02"), b.refunded("2018-07-03"), c], [on]),
                ]
            case .rowBReversed:
                [
                    Told("2018-07-02", [a, b.refunded("2018-07-02"), c], [on]),
                    Told("2018-07-05", [a, b, c], [on]),
                ]
            }
        return example.told + later
    }

    /// The access if the statements arrive in this order: a reversal that arrives before its refund reverses nothing.
    func spans(_ arrived: [Told]) -> [Span] {
        let told = self.told
        guard self == .rowBReversed, !arrived.takesBack(told[told.count - 2], by: told[told.count - 1]) else {
            return spans
        }
        return Self.rowBRefunded.spans
    }

    var spans: [Span] {
        switch self {
        case .base, .rowBReversed: MagazineExample.base
        case .rowARefunded: [Span("2018-03-20", "2018-04-20"), Span("2018-06-17", "2018-07-17")]
        case .rowBRefunded: [Span("2018-02-20", "2018-03-20"), Span("2018-06-17", "2018-07-17")]
        case .rowCRefunded: [Span("2018-02-20", "2018-04-20")]
        case .rowsAAndBRefunded: [Span("2018-06-17", "2018-07-17")]
        }
    }
}

@Suite("Worked example 1: the magazine")
struct MagazineExampleTests {
    @Test(
        "access matches the table for every variant and order of arrival",
        arguments: MagazineVariant.allCases, Arrival.allCases)
    func access(variant: MagazineVariant, arrival: Arrival) {
        let told = arrival.arrange(variant.told)

        let subscription = Subscription(arriving: told)

        #expect(subscription.spans == variant.spans(told))
    }

    @Test(
        "the status just after each date matches the table",
        arguments: [
            ("2018-02-01", SubscriptionStatus.never), ("2018-02-20", .active), ("2018-03-01", .active),
            ("2018-03-20", .active),
            ("2018-04-01", .active), ("2018-04-10", .activeWillEnd), ("2018-04-19T23:59:59.999Z", .activeWillEnd),
            ("2018-04-20", .expired), ("2018-05-01", .expired), ("2018-06-01", .expired), ("2018-06-17", .active),
            ("2018-07-01", .active), ("2018-07-17", .expired),
        ], Arrival.allCases)
    func status(expected: (date: String, status: SubscriptionStatus), arrival: Arrival) {
        let subscription = Subscription(arriving: arrival.arrange(MagazineExample().told))

        #expect(subscription.status(at: day(expected.date)) == expected.status)
    }

    @Test("a period includes its first instant and excludes its end")
    func halfOpen() {
        let subscription = Subscription(arriving: MagazineExample().told)

        #expect(subscription.isActive(at: day("2018-02-20")))
        #expect(!subscription.isActive(at: day("2018-02-19T23:59:59.999Z")))
        #expect(subscription.period(at: day("2018-03-20"))?.transactionId == "1000000000000002")
        #expect(subscription.isActive(at: day("2018-04-19T23:59:59.999Z")))
        #expect(!subscription.isActive(at: day("2018-04-20")))
    }

    @Test("the lapse is the gap between two rows")
    func lapse() {
        let subscription = Subscription(arriving: MagazineExample().told)

        #expect(subscription.period(at: day("2018-04-20")) == nil)
        #expect(subscription.period(at: day("2018-06-16T23:59:59.999Z")) == nil)
        #expect(subscription.period(at: day("2018-06-17"))?.transactionId == "1000000000000003")
    }

    @Test("the next change is the end of the paid time, beyond renewals that are already known")
    func nextChange() throws {
        let subscription = Subscription(arriving: MagazineExample().told)

        let first = try #require(subscription.nextChange(after: day("2018-04-10")))
        let second = try #require(subscription.nextChange(after: day("2018-06-17")))

        #expect(first.at == day("2018-04-20"))
        #expect(first.to == .expired)
        #expect(second.at == day("2018-07-17"))
        #expect(second.to == .expired)
        #expect(subscription.nextChange(after: day("2018-07-17")) == nil)
    }

    @Test("renewal is on until it is switched off, and on again from the new purchase")
    func renewal() {
        let subscription = Subscription(arriving: MagazineExample().told)

        #expect(subscription.renewal(at: day("2018-04-09")).autoRenewStatus == true)
        #expect(subscription.renewal(at: day("2018-04-10")).autoRenewStatus == false)
        #expect(subscription.renewal(at: day("2018-06-16")).autoRenewStatus == false)
        #expect(subscription.renewal(at: day("2018-06-17")).autoRenewStatus == true)
    }

    @Test("a refund changes past access as known today, and not as computed before the refund")
    func knownAndBelieved() {
        let example = MagazineExample()
        let untilApril15 = Array(example.told.prefix(3))
        let refund = Told(
            "2018-05-10", [example.rowA, example.rowB.refunded("2018-05-10")], [example.off])

        let believed = Subscription(arriving: untilApril15)
        let known = Subscription(arriving: untilApril15 + [refund])

        #expect(believed.isActive(at: day("2018-04-10")))
        #expect(!known.isActive(at: day("2018-04-10")))
        #expect(known.isActive(at: day("2018-03-10")))
    }
}
