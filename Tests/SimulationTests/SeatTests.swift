import Encoding
import Testing

@testable import Simulation

/// By Apple's documentation alone: no genuine body with seats was seen.
@Suite("Seats in the simulator's books")
struct SeatTests {
    private static let five = [Seats.Tier(price: 2000, quantity: 5)]

    private func purchaser() -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-01-10"), seats: Seats(Self.five))
        return life
    }

    /// The transaction and the renewal in the last notification.
    private func last(_ life: SubscriptionLife) throws -> (transaction: [String: Any], renewal: [String: Any]) {
        let notification = try #require(
            life.notifications.last?.version2Notification(app: testApp, customer: life.customer))
        guard case .data(let data) = notification.content else { return ([:], [:]) }
        return (PlayJSON(data.transaction?.json).json, PlayJSON(data.renewalInfo?.json).json)
    }

    @Test("the price of a transaction is that of one seat on average, and what was paid is the sum of the tiers")
    func prices() throws {
        var life = newLife()
        life.subscribe(
            to: monthly, at: day("2025-01-10"),
            seats: Seats([Seats.Tier(price: 2000, quantity: 3), Seats.Tier(price: 1000, quantity: 1)]))

        let shown = try last(life).transaction
        #expect(shown["quantity"] as? Int == 4 && shown["price"] as? Int == 1750)
        #expect(life.current.paid == 7000)
        let info = shown["multiSeatInfo"] as? [String: Any]
        #expect(info?["invitationManagement"] as? String == "APPLE")
        #expect((info?["priceTiers"] as? [[String: Any]])?.count == 2)
        #expect(info?["revokedSeatQuantity"] == nil && shown["additionalTransactionReason"] == nil)
    }

    @Test("added seats are a transaction of the same period, and all of the period say that there are several")
    func addition() throws {
        var life = purchaser()

        life.addSeats([Seats.Tier(price: 2000, quantity: 3)], at: day("2025-01-20"))

        let shown = try last(life)
        #expect(shown.transaction["additionalTransactionReason"] as? String == "SEAT_ADDITION")
        #expect(shown.transaction["isUpgraded"] == nil && shown.renewal["renewalQuantity"] as? Int == 8)
        #expect(life.purchases.allSatisfy { $0.seats?.isOneOfSeveral == true && $0.upgradedAt == nil })
        #expect(Set(life.purchases.map(\.expiresDate)) == [day("2025-02-10")])
        #expect(life.sentInVersion2.last == "2025-01-20 DID_CHANGE_RENEWAL_PREF/INCREASE_QUANTITY")
        life.renew()
        #expect(
            life.current.quantity == 8 && life.current.paid == 16_000 && life.current.seats?.isOneOfSeveral == false)
    }

    @Test("fewer seats are those of the next period")
    func reduction() throws {
        var life = purchaser()

        life.chooseSeats([Seats.Tier(price: 2000, quantity: 2)], at: day("2025-01-20"))
        let chosen = try last(life)
        life.renew()

        #expect(chosen.transaction["quantity"] as? Int == 5 && chosen.renewal["renewalQuantity"] as? Int == 2)
        #expect(life.purchases.map(\.quantity) == [5, 2])
        #expect(life.sentInVersion2[1] == "2025-01-20 DID_CHANGE_RENEWAL_PREF/DECREASE_QUANTITY")
    }

    @Test("refunded seats leave the purchaser's access, until none is left in any transaction of the period")
    func refunds() throws {
        var life = purchaser()
        life.addSeats([Seats.Tier(price: 2000, quantity: 3)], at: day("2025-01-20"))

        life.refundSeats(3, at: day("2025-01-25"))
        let all = try last(life)
        #expect(all.transaction["revocationDate"] != nil && life.isActive("2025-01-26"))
        #expect(life.purchases.map(\.seats?.revoked) == [0, 0])

        var other = purchaser()
        other.refundSeats(2, at: day("2025-01-25"))
        let some = try last(other)
        let info = some.transaction["multiSeatInfo"] as? [String: Any]
        #expect(info?["revokedSeatQuantity"] as? Int == 2 && some.transaction["revocationDate"] == nil)
        #expect(other.isActive("2025-01-26") && other.sentInVersion2.last == "2025-01-25 REFUND/SEATS")
        var figures = Figures()
        figures.add(SimulatedSubscription(other))
        let currency = other.customer.storefront.currency
        #expect(figures.values["refunds 2025-01-01 \(monthly.id) \(currency) amount"] == 4000)
        #expect(figures.values["refunds 2025-01-01 \(monthly.id) \(currency) in_part"] == 1)
        other.refundSeats(5, at: day("2025-01-28"))
        #expect(!other.isActive("2025-01-29"))
    }

    @Test("a member's access ends when the seat is taken back; nobody gets money, and the member is no payer")
    func member() throws {
        var life = newLife(isAssigned: true, subscription: 1)
        life.subscribe(to: monthly, at: day("2025-01-12"), until: day("2025-02-10"), seats: Seats(Self.five))

        life.revokeMember(at: day("2025-01-20"))

        let shown = try last(life).transaction
        #expect(shown["inAppOwnershipType"] as? String == "ASSIGNED")
        #expect(shown["revocationType"] as? String == "ASSIGNMENT_REVOKE" && shown["revocationPercentage"] == nil)
        #expect(life.isActive("2025-01-19") && !life.isActive("2025-01-20") && !life.isActive("2025-01-11"))
        let books = SimulatedSubscription(life)
        #expect(books.ids(.v2).map(\.kind) == [.appTransaction, .subscription])
        var figures = Figures()
        figures.add(books)
        #expect(figures.values.isEmpty)
    }

    @Test("claims that are taken back are about no transaction")
    func unclaimed() throws {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-01-10"), seats: Seats(Self.five, .developer))

        life.unclaimSeats(2, at: day("2025-01-20"))

        let body = try #require(
            life.notifications.last?.version2Notification(app: testApp, customer: life.customer))
        guard case .unclaimInfo(let json) = body.content else {
            Issue.record("\(body.content)")
            return
        }
        #expect((PlayJSON(json).json["unclaimSeatIds"] as? [String])?.count == 2)
        #expect(life.isActive("2025-02-09"))
    }
}

@Suite("Purchases that the simulated store reports under another subscription")
struct MoveTests {
    /// Lapsed on February 10, and bought again in March under an id of its own.
    private func lives() -> (former: SubscriptionLife, life: SubscriptionLife) {
        var former = newLife()
        former.subscribe(to: monthly, at: day("2025-01-10"))
        former.switchOff(at: day("2025-01-20"))
        former.runOut()
        var life = newLife(subscription: 1)
        life.subscribe(to: monthly, at: day("2025-03-01"))
        return (former, life)
    }

    @Test("the books of the one that had it keep nothing of it, and the other one goes on with it")
    func moved() throws {
        var (former, life) = lives()
        let id = life.current.transactionId

        life.move([id], to: &former, leaving: nil, at: day("2025-03-05"))
        former.switchOff(at: day("2025-03-05"))

        #expect(life.purchases.isEmpty && life.renewalPreference == nil && !life.isActive("2025-03-02"))
        #expect(former.isActive("2025-03-02") && !former.isActive("2025-02-15") && former.current.transactionId == id)
        let books = SimulatedSubscription(life)
        #expect(books.originalTransactionId == id && books.notifiedBooks.count == 1 && books.history.count == 2)
        #expect(books.status(at: day("2025-03-04"))?.status == .active)
        #expect(books.status(at: day("2025-03-06")) == nil && books.transactions(at: day("2025-03-06")).isEmpty)
        former.refund(at: day("2025-03-07"))
        #expect(!former.isActive("2025-03-02"))
    }

    @Test("it moves back, with its refund, and leaves the renewal that was there before")
    func back() {
        var (former, life) = lives()
        let ended = former.renewalPreference
        let id = life.current.transactionId
        life.move([id], to: &former, leaving: nil, at: day("2025-03-05"))
        former.switchOff(at: day("2025-03-05"))
        former.refund(at: day("2025-03-06"))

        former.move([id], to: &life, leaving: ended, at: day("2025-03-07"))
        life.repeatRefund(at: day("2025-03-07"))

        #expect(former.renewalPreference == ended && former.purchases.count == 1 && former.isActive("2025-01-20"))
        #expect(!life.isActive("2025-03-02") && life.current.revocation?.date == day("2025-03-06"))
        #expect(life.sentInVersion2 == ["2025-03-01 SUBSCRIBED/INITIAL_BUY", "2025-03-07 REFUND"])
    }

    @Test("the store's API finds a transaction where it is at the time")
    func lookup() throws {
        var settings = Simulation.Settings(app: testApp)
        settings.stories = [.moved]
        settings.subscriptions = 1
        let simulation = try #require(Simulation(settings))
        let subscriptions = simulation.storyteller.story(at: 0).subscriptions
        let id = subscriptions[1].originalTransactionId
        let moved = try #require(subscriptions[1].history.last?.at)

        let before = simulation.lookup(id, at: moved.advanced(byMilliseconds: -1))?.subscription
        let after = simulation.lookup(id, at: moved)?.subscription

        #expect(before?.originalTransactionId == id)
        #expect(after?.originalTransactionId == subscriptions[0].originalTransactionId)
    }
}

@Suite("Yearly plans that are billed monthly, in the simulator's books")
struct LongCommitmentTests {
    private func life() -> SubscriptionLife {
        var life = newLife()
        life.billingPlan = .monthly
        life.subscribe(to: .subscription(.premium, .yearly, of: testApp.bundleId), at: day("2025-01-10"))
        return life
    }

    @Test("a cancelled commitment is billed to its end, with auto-renewal on until then")
    func cancelled() throws {
        var life = life()

        life.cancelCommitment(at: day("2025-01-20"))
        let shown = try #require(
            life.notifications.last?.version2Notification(app: testApp, customer: life.customer))
        for _ in 1..<12 { life.renew() }
        life.endCommitment()

        guard case .data(let data) = shown.content else { return }
        let renewal = PlayJSON(data.renewalInfo?.json).json
        #expect(renewal["autoRenewStatus"] as? Int == 1)
        let commitment = renewal["commitmentInfo"] as? [String: Any]
        #expect(commitment?["commitmentAutoRenewStatus"] as? Int == 0)
        #expect(commitment?["commitmentRenewalDate"] as? Int == Int(day("2026-01-10").milliseconds))
        #expect(life.isActive("2026-01-09") && !life.isActive("2026-01-10"))
        #expect(life.sentInVersion2.last == "2026-01-10 EXPIRED/VOLUNTARY")
    }

    @Test("a charge is retried for 90 days, and one of another plan for 60")
    func retry() {
        var monthly = life()
        monthly.failToRenew()
        var recovered = monthly
        recovered.recover(at: day("2025-04-27"))
        monthly.giveUp()
        var other = newLife()
        other.subscribe(to: .subscription(.premium, .monthly, of: testApp.bundleId), at: day("2025-01-10"))
        other.failToRenew()
        other.giveUp()

        #expect(monthly.sentInVersion2.last == "2025-05-11 EXPIRED/BILLING_RETRY")
        #expect(other.sentInVersion2.last == "2025-04-11 EXPIRED/BILLING_RETRY")
        var figures = Figures()
        figures.add(SimulatedSubscription(recovered))
        #expect(figures.values.filter { $0.key.hasPrefix("movements") && $0.key.hasSuffix("recovered") }.count == 1)
    }
}
