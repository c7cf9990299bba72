import Encoding
import Subscriptions
import Testing

/// What the change feed publishes for the actions of the lifecycle table.
struct ChangeTests {
    private let first = row("1000000000000001", "2018-02-20", "2018-03-20")
    private let second = row("1000000000000002", "2018-03-20", "2018-04-20")
    private let on = intention(autoRenew: true)
    private let off = intention(autoRenew: false)

    /// The changes that the last of these statements causes, seen at an instant.
    private func changes(at instant: String, _ told: [Told]) -> [Change] {
        let (old, new) = (Subscription(arriving: told.dropLast()), Subscription(arriving: told))
        return SubscriptionSnapshot(new).changes(
            from: SubscriptionSnapshot(old), at: day(instant), cause: .event(position: Int64(told.count)),
            evidenceAfter: Int64(told.count - 1))
    }

    private func clock(_ told: [Told], after start: String, through end: String) -> [Change] {
        SubscriptionSnapshot.clockChanges(
            of: testSubscription, Subscription(arriving: told).access, after: day(start), through: day(end))
    }

    private func change(
        _ kind: Change.Kind, at instant: String, cause: Change.Cause, product: String? = nil,
        until: String? = nil, autoRenew: Bool? = nil, next: String? = nil
    ) -> Change {
        Change(
            kind, of: testSubscription, at: day(instant), cause: cause, productId: product, until: until.map(day),
            autoRenewStatus: autoRenew, nextProductId: next)
    }

    @Test("a first purchase with renewal on publishes opened and no change of renewal")
    func firstPurchase() {
        #expect(
            changes(at: "2018-02-21", [Told("2018-02-20", [first], [on])]) == [
                change(.opened, at: "2018-02-21", cause: .event(position: 1), product: monthly, until: "2018-03-20")
            ])
    }

    @Test("a change of owner is published for the customer that lost it and the one that gained it")
    func owners() {
        let told = [Told("2018-02-20", [first], [on])]
        let (a, b) = (CustomerKey(.account, "a"), CustomerKey(.account, "b"))
        let unclaimed = CustomerKey(.subscription, testSubscription)
        func changes(from old: [CustomerKey], to new: [CustomerKey], at instant: String) -> [Change] {
            SubscriptionSnapshot(Subscription(arriving: told)).ownerChanges(
                from: old.map { owned($0) }, to: new.map { owned($0) }, at: day(instant), cause: .event(position: 2))
        }
        func changed(_ customer: CustomerKey, at instant: String, product: String?, until: String?) -> Change {
            Change(
                .customerChanged, of: testSubscription, at: day(instant), cause: .event(position: 2),
                productId: product, until: until.map(day), customer: customer)
        }

        #expect(
            changes(from: [a], to: [b], at: "2018-03-01") == [
                changed(a, at: "2018-03-01", product: monthly, until: nil),
                changed(b, at: "2018-03-01", product: monthly, until: "2018-03-20"),
            ])
        #expect(
            changes(from: [a], to: [b], at: "2018-03-20") == [
                changed(a, at: "2018-03-20", product: nil, until: nil),
                changed(b, at: "2018-03-20", product: nil, until: nil),
            ])
        #expect(
            changes(from: [unclaimed], to: [a], at: "2018-03-01") == [
                changed(a, at: "2018-03-01", product: monthly, until: "2018-03-20")
            ])
        #expect(changes(from: [a, b], to: [b, a], at: "2018-03-01") == [])
    }

    private func owned(_ customer: CustomerKey, from start: String? = nil, until end: String? = nil) -> Ownership {
        Ownership(
            originalTransactionId: ByteString(testSubscription), owner: customer, from: start.map(day) ?? .earliest,
            until: end.map(day) ?? .latest, reason: .account, position: 1)
    }

    @Test("users who lose and gain past access are published, and the owner of now if its past changes")
    func pastOwners() {
        let told = [Told("2018-02-20", [first], [on]), Told("2018-03-20", [first, second], [on])]
        let (a, b, c) = (CustomerKey(.account, "a"), CustomerKey(.account, "b"), CustomerKey(.account, "c"))
        func changes(from old: [Ownership], to new: [Ownership], at instant: String) -> [String] {
            SubscriptionSnapshot(Subscription(arriving: told)).ownerChanges(
                from: old, to: new, at: day(instant), cause: .event(position: 3)
            ).map { "\($0.customer?.id.text ?? "") \($0.productId ?? "–") \($0.until?.description.prefix(10) ?? "–")" }
        }
        let before = [owned(a, until: "2018-03-20"), owned(b, from: "2018-03-20")]

        #expect(
            changes(from: before, to: [owned(c, until: "2018-03-20"), owned(b, from: "2018-03-20")], at: "2018-04-01")
                == ["a – –", "c – –"])
        #expect(
            changes(from: before, to: [owned(a, until: "2018-03-10"), owned(b, from: "2018-03-10")], at: "2018-04-01")
                == ["a – –", "b \(monthly) 2018-04-20"])
        // Without access in the time that changes its owner, nobody gains or loses anything.
        #expect(
            changes(
                from: [owned(a, until: "2018-01-01"), owned(b, from: "2018-01-01")],
                to: [owned(a, until: "2018-02-01"), owned(b, from: "2018-02-01")], at: "2018-04-01") == [])
        // The future is left to the clock.
        #expect(changes(from: [owned(a)], to: before, at: "2018-03-19T23:59:59.999Z") == [])
        #expect(
            changes(from: [owned(a)], to: before, at: "2018-03-20")
                == ["a \(monthly) –", "b \(monthly) 2018-04-20"])
    }

    @Test("an owner whose time begins without an event is published by the clock, after the former one")
    func ownersByTheClock() {
        let told = [Told("2018-02-20", [first], [on]), Told("2018-03-19", [first, second], [on])]
        let (a, b) = (CustomerKey(.account, "a"), CustomerKey(.account, "b"))
        func clock(_ owners: [Ownership], after start: String, through end: String) -> [String] {
            SubscriptionSnapshot.clockChanges(
                of: testSubscription, Subscription(arriving: told).access, owners: owners, after: day(start),
                through: day(end)
            ).map { change in
                let customer = change.customer?.id.text ?? "–"
                return "\(change.kind.rawValue) \(customer) \(change.at.description.prefix(10)) "
                    + "\(change.until?.description.prefix(10) ?? "–")"
            }
        }
        let turn = [owned(a, until: "2018-03-20"), owned(b, from: "2018-03-20")]
        let late = [owned(a, until: "2018-04-20"), owned(b, from: "2018-04-20")]
        let unclaimed = [owned(CustomerKey(.subscription, "1"), until: "2018-03-20"), owned(b, from: "2018-03-20")]

        #expect(
            clock(turn, after: "2018-03-19", through: "2018-03-20")
                == ["customer_changed a 2018-03-20 –", "customer_changed b 2018-03-20 2018-04-20"])
        #expect(clock(turn, after: "2018-03-18", through: "2018-03-19T23:59:59.999Z") == [])
        #expect(clock(turn, after: "2018-03-20", through: "2018-04-19") == [])
        #expect(
            clock(late, after: "2018-04-01", through: "2018-04-20")
                == ["closed – 2018-04-20 –", "customer_changed a 2018-04-20 –", "customer_changed b 2018-04-20 –"])
        #expect(
            clock(unclaimed, after: "2018-03-19", through: "2018-03-20")
                == ["customer_changed b 2018-03-20 2018-04-20"])
    }

    @Test("a period that ended before its event arrived publishes no change")
    func history() {
        #expect(changes(at: "2018-05-01", [Told("2018-02-20", [first], [on])]) == [])
    }

    @Test("a renewal charged early publishes extended, and the clock publishes nothing at its start")
    func renewal() {
        let told = [Told("2018-02-20", [first], [on]), Told("2018-03-19", [first, second], [on])]
        #expect(
            changes(at: "2018-03-19", told) == [
                change(
                    .extended, at: "2018-03-19", cause: .event(position: 2), product: monthly, until: "2018-04-20")
            ])
        #expect(clock(told, after: "2018-03-19", through: "2018-04-19") == [])
    }

    @Test("the clock publishes the end of a period once, at its instant")
    func expiry() {
        let told = [Told("2018-02-20", [first], [on])]
        let closed = change(.closed, at: "2018-03-20", cause: .clock, product: monthly)
        #expect(clock(told, after: "2018-03-19", through: "2018-03-19T23:59:59.999Z") == [])
        #expect(clock(told, after: "2018-03-19", through: "2018-03-20") == [closed])
        #expect(clock(told, after: "2018-03-20", through: "2019-03-20") == [])
    }

    @Test("the clock publishes all boundaries since the last check, in order")
    func longSilence() {
        let back = row("1000000000000003", "2018-06-17", "2018-07-17")
        let told = [Told("2018-02-20", [first], [on]), Told("2018-06-17", [first, back], [on])]
        #expect(
            clock(told, after: "2018-03-01", through: "2018-08-01") == [
                change(.closed, at: "2018-03-20", cause: .clock, product: monthly),
                change(.opened, at: "2018-06-17", cause: .clock, product: monthly, until: "2018-07-17"),
                change(.closed, at: "2018-07-17", cause: .clock, product: monthly),
            ])
    }

    @Test("switching renewal off and on publishes a change of renewal and no change of access")
    func switching() {
        let told = [
            Told("2018-02-20", [first], [on]), Told("2018-03-01", [first], [off]), Told("2018-03-02", [first], [on]),
        ]
        #expect(
            changes(at: "2018-03-01", Array(told.prefix(2))) == [
                change(.renewalSwitched, at: "2018-03-01", cause: .event(position: 2), autoRenew: false)
            ])
        #expect(
            changes(at: "2018-03-02", told) == [
                change(.renewalSwitched, at: "2018-03-02", cause: .event(position: 3), autoRenew: true)
            ])
    }

    @Test("a downgrade publishes the next product; when it takes effect, only the change of product")
    func downgrade() {
        let lower = "com.example.magazine.basic"
        let planned = intention(autoRenew: true, next: lower)
        let replaced = row("1000000000000002", "2018-03-20", "2018-04-20", product: lower)
        let told = [
            Told("2018-02-20", [first], [on]), Told("2018-03-01", [first], [planned]),
            Told("2018-03-20", [first, replaced], [intention(autoRenew: true, next: lower, current: lower)]),
        ]
        #expect(
            changes(at: "2018-03-01", Array(told.prefix(2))) == [
                change(.nextProduct, at: "2018-03-01", cause: .event(position: 2), next: lower)
            ])
        // The period before has just ended. If the renewal is reported a day early, the clock changes the product.
        #expect(
            changes(at: "2018-03-20", told) == [
                change(.opened, at: "2018-03-20", cause: .event(position: 3), product: lower, until: "2018-04-20")
            ])
        #expect(
            clock(told, after: "2018-03-19", through: "2018-03-20") == [
                change(.productChanged, at: "2018-03-20", cause: .clock, product: lower, until: "2018-04-20")
            ])
        // Withdrawn before it takes effect.
        #expect(
            changes(at: "2018-03-02", Array(told.prefix(2)) + [Told("2018-03-02", [first], [on])]) == [
                change(.nextProduct, at: "2018-03-02", cause: .event(position: 3))
            ])
    }

    @Test("grace publishes extended; the clock publishes its end; switching off within it publishes closed at once")
    func grace() {
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2018-03-23")
        }
        let told = [Told("2018-02-20", [first], [on]), Told("2018-03-19T23:00:00Z", [first], [failed])]
        #expect(
            changes(at: "2018-03-19T23:00:00Z", told) == [
                change(
                    .extended, at: "2018-03-19T23:00:00Z", cause: .event(position: 2), product: monthly,
                    until: "2018-03-23")
            ])
        #expect(
            clock(told, after: "2018-03-19", through: "2018-03-24") == [
                change(.closed, at: "2018-03-23", cause: .clock, product: monthly)
            ])
        let switchedOff = intention(autoRenew: false) { $0.autoRenewStatusChangeDate = day("2018-03-21") }
        #expect(
            changes(at: "2018-03-21", told + [Told("2018-03-21", [first], [switchedOff])]) == [
                change(.closed, at: "2018-03-21", cause: .event(position: 3), product: monthly),
                change(.renewalSwitched, at: "2018-03-21", cause: .event(position: 3), autoRenew: false),
            ])
    }

    @Test("a refund publishes closed for the current row, shortened for the next row, nothing for an old row")
    func refunds() {
        let told = [Told("2018-02-20", [first], [on]), Told("2018-03-19", [first, second], [on])]
        let current = Told("2018-03-25", [first, second.refunded("2018-03-25")])
        #expect(
            changes(at: "2018-03-25", told + [current]) == [
                change(.closed, at: "2018-03-25", cause: .event(position: 3), product: monthly)
            ])
        let old = Told("2018-03-25", [first.refunded("2018-03-25"), second])
        #expect(changes(at: "2018-03-25", told + [old]) == [])
        // The remaining row was known before, so the cause is the event that shortened the access.
        #expect(
            changes(at: "2018-03-19", told + [current]) == [
                change(
                    .shortened, at: "2018-03-19", cause: .event(position: 3), product: monthly, until: "2018-03-20")
            ])
    }

    @Test("an upgrade publishes a change of product")
    func upgrade() {
        let upgraded = row("1000000000000001", "2018-02-20", "2018-03-20") {
            $0.isUpgraded = true
            $0.revocationDate = day("2018-03-01")
        }
        let higher = row("1000000000000005", "2018-03-01", "2018-04-01", product: premium)
        let told = [
            Told("2018-02-20", [first], [on]),
            Told("2018-03-01", [upgraded, higher], [intention(autoRenew: true, next: premium, current: premium)]),
        ]
        #expect(
            changes(at: "2018-03-01", told) == [
                change(
                    .productChanged, at: "2018-03-01", cause: .event(position: 2), product: premium,
                    until: "2018-04-01")
            ])
    }

    @Test("what is bought beside a plan is added to it, and its end removes it: the plan does not change")
    func addedProduct() {
        func plan(_ end: String) -> AccessPeriod { period("1", monthly, "2018-02-20", end) }
        let (addition, renewed) = (period("2", premium, "2018-03-01", "2018-03-20"), plan("2018-04-20"))
        func changes(_ before: [AccessPeriod], _ now: [AccessPeriod], at instant: String) -> [Change] {
            snapshot(now).changes(
                from: snapshot(before), at: day(instant), cause: .event(position: 2), evidenceAfter: 1)
        }
        let cause = Change.Cause.event(position: 2)

        #expect(
            changes([plan("2018-03-20")], [plan("2018-03-20"), addition], at: "2018-03-01") == [
                change(.productAdded, at: "2018-03-01", cause: cause, product: premium, until: "2018-03-20")
            ])
        #expect(
            changes([renewed, addition], [renewed], at: "2018-03-10") == [
                change(.productRemoved, at: "2018-03-10", cause: cause, product: monthly, until: "2018-04-20")
            ])
        #expect(
            SubscriptionSnapshot.clockChanges(
                of: testSubscription, [renewed, addition], after: day("2018-02-25"), through: day("2018-05-01")
            ) == [
                change(.productAdded, at: "2018-03-01", cause: .clock, product: premium, until: "2018-04-20"),
                change(.productRemoved, at: "2018-03-20", cause: .clock, product: monthly, until: "2018-04-20"),
                change(.closed, at: "2018-04-20", cause: .clock, product: monthly),
            ])
        // Both renew: neither is added or changed.
        let longer = period("2", premium, "2018-03-01", "2018-04-20")
        #expect(
            changes([plan("2018-03-20"), addition], [renewed, longer], at: "2018-03-10") == [
                change(.extended, at: "2018-03-10", cause: cause, product: premium, until: "2018-04-20")
            ])
    }

    private func period(_ id: String, _ product: String, _ start: String, _ end: String) -> AccessPeriod {
        AccessPeriod(
            start: day(start), end: day(end), cause: .paid, cut: nil, transactionId: id, productId: product, position: 1
        )
    }

    private func snapshot(_ access: [AccessPeriod]) -> SubscriptionSnapshot {
        SubscriptionSnapshot(
            originalTransactionId: testSubscription, access: access, autoRenewStatus: nil, plannedProductId: nil)
    }
}
