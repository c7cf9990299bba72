import Simulation
import Subscriptions
import Testing

/// The worked examples of the domain, scripted by hand, with the literal answers of their tables.
@Suite("The simulator's access book gives the answers of the worked examples")
struct WorkedExampleTests {
    // MARK: Example 1: magazine

    private func magazine(_ tamper: (inout SubscriptionLife) -> Void = { _ in }) -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2018-02-20"))
        life.renew()
        life.switchOff(at: day("2018-04-10"))
        life.runOut()
        life.resubscribe(to: monthly, at: day("2018-06-17"))
        tamper(&life)
        return life
    }

    private static let instants = [
        "2018-02-01", "2018-02-20", "2018-03-01", "2018-03-20", "2018-04-01", "2018-04-20", "2018-05-01",
        "2018-06-01", "2018-06-17", "2018-07-01", "2018-07-17",
    ]

    @Test("the magazine subscription has the access of its table")
    func magazineTable() {
        let life = magazine()

        #expect(
            Self.instants.map(life.isActive)
                == [false, true, true, true, true, false, false, false, true, true, false])
        #expect(life.isActive("2018-04-19T23:59:59.999Z"))
        #expect(!life.isActive("2018-06-16T23:59:59.999Z"))
        #expect(
            life.sentInVersion2 == [
                "2018-02-20 SUBSCRIBED/INITIAL_BUY", "2018-03-20 DID_RENEW",
                "2018-04-10 DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED", "2018-04-20 EXPIRED/VOLUNTARY",
                "2018-06-17 SUBSCRIBED/RESUBSCRIBE",
            ])
        #expect(
            life.sentInVersion1 == [
                "2018-02-20 INITIAL_BUY", "2018-03-20 DID_RENEW", "2018-04-10 DID_CHANGE_RENEWAL_STATUS",
                "2018-06-17 DID_CHANGE_RENEWAL_STATUS",
            ])
    }

    struct Refunds: Sendable {
        /// The refunded rows, counted from 0.
        let rows: [Int]
        let active: [Bool]
    }

    static let refunds = [
        Refunds(rows: [0], active: [false, false, false, true, true, false, false, false, true, true, false]),
        Refunds(rows: [1], active: [false, true, true, false, false, false, false, false, true, true, false]),
        Refunds(rows: [2], active: [false, true, true, true, true, false, false, false, false, false, false]),
        Refunds(rows: [0, 1], active: [false, false, false, false, false, false, false, false, true, true, false]),
    ]

    @Test("refunded periods of the magazine give no access", arguments: refunds)
    func magazineRefunds(_ variant: Refunds) {
        let life = magazine { life in
            for (number, row) in variant.rows.enumerated() {
                life.refund(life.purchases[row].transactionId, at: day("2018-06-2\(number)"))
            }
        }

        #expect(Self.instants.map(life.isActive) == variant.active)
    }

    @Test("a reversed refund restores access")
    func magazineReversal() {
        let life = magazine { life in
            life.refund(life.purchases[1].transactionId, at: day("2018-06-20"))
            life.reverseRefund(of: life.purchases[1].transactionId, at: day("2018-06-25"))
        }

        #expect(Self.instants.map(life.isActive) == Self.instants.map(magazine().isActive))
        #expect(life.sentInVersion2.suffix(2) == ["2018-06-20 REFUND", "2018-06-25 REFUND_REVERSED"])
        #expect(life.notifications.last?.subject.revocation == nil)
    }

    // MARK: Example 2: billing issue

    struct Grace: Sendable {
        let days: Int?
        /// On Apr 19, 20, 22, 23, May 4, 5, 19, 20.
        let active: [Bool]
        let nextRenewal: String
    }

    static let graces = [
        Grace(days: nil, active: [true, false, false, false, false, true, true, true], nextRenewal: "2018-06-05"),
        Grace(days: 3, active: [true, true, true, false, false, true, true, true], nextRenewal: "2018-06-05"),
        Grace(days: 16, active: [true, true, true, true, true, true, true, false], nextRenewal: "2018-05-20"),
        Grace(days: 28, active: [true, true, true, true, true, true, true, false], nextRenewal: "2018-05-20"),
    ]

    private func failing(_ grace: Int?) -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2018-02-20"))
        life.renew()
        life.failToRenew(graceDays: grace)
        if grace == 3 { life.endGrace() }
        return life
    }

    @Test(
        "a billing issue has the access of its table for each grace period", arguments: graces,
        SubscriptionLife.RecoveryDate.allCases)
    func billingIssue(_ grace: Grace, _ shown: SubscriptionLife.RecoveryDate) {
        var life = failing(grace.days)

        life.recover(at: day("2018-05-05"), shownAs: shown)

        let dates = ["04-19", "04-20", "04-22", "04-23", "05-04", "05-05", "05-19", "05-20"]
        #expect(dates.map { life.isActive("2018-\($0)") } == grace.active)
        #expect(life.expiry == day(grace.nextRenewal))
        #expect(life.sentInVersion2.last == "2018-05-05 DID_RENEW/BILLING_RECOVERY")
        #expect(life.sentInVersion1.last == "2018-05-05 DID_RECOVER")
        #expect(life.sentInVersion2.contains("2018-04-23 GRACE_PERIOD_EXPIRED") == (grace.days == 3))
        life.renew()
        #expect(life.isActive("2018-05-20") && life.isActive("2018-06-19"))
    }

    @Test("a renewal that is never charged expires after 60 days in both versions")
    func neverPaid() {
        var life = failing(3)

        life.giveUp()

        #expect(life.sentInVersion2.last == "2018-06-19 EXPIRED/BILLING_RETRY")
        #expect(life.sentInVersion1.last == "2018-06-19 DID_CHANGE_RENEWAL_STATUS")
        #expect(life.isActive("2018-04-22") && !life.isActive("2018-04-23") && !life.isActive("2018-06-19"))
        #expect(life.renewalPreference?.expiration == .billing)
    }

    @Test("a switch-off within grace ends access at that instant")
    func switchedOffInGrace() {
        var life = failing(16)

        life.switchOff(at: day("2018-04-25T10:00:00Z"))

        #expect(life.isActive("2018-04-25T09:59:59.999Z"))
        #expect(!life.isActive("2018-04-25T10:00:00Z"))
        #expect(
            life.sentInVersion2.suffix(2) == [
                "2018-04-25 DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED", "2018-04-25 EXPIRED/VOLUNTARY",
            ])
        #expect(life.notifications.suffix(2).first?.signedDate == day("2018-04-25T10:00:00Z"))
    }
}
