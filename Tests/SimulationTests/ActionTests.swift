import Simulation
import Subscriptions
import Testing

@Suite("Each action has the effect specified in the lifecycle table")
struct ActionTests {
    private func subscribed() -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-01-10"))
        return life
    }

    @Test("an upgrade ends the old period; version 2 reports the new purchase only")
    func upgrade() throws {
        var life = subscribed()

        life.upgrade(to: premium, at: day("2025-01-20"))

        #expect(life.isActive("2025-01-19") && life.isActive("2025-01-20") && life.isActive("2025-02-19"))
        #expect(!life.isActive("2025-02-20"))
        #expect(life.sentInVersion2.last == "2025-01-20 DID_CHANGE_RENEWAL_PREF/UPGRADE")
        #expect(
            life.sentInVersion1.suffix(2) == ["2025-01-20 INTERACTIVE_RENEWAL", "2025-01-20 DID_CHANGE_RENEWAL_STATUS"])
        let notification = try #require(life.notifications.first { $0.version2?.subtype == "UPGRADE" })
        #expect(notification.subject.product == premium)
        #expect(notification.purchases.first?.upgradedAt == day("2025-01-20"))
    }

    @Test("a refunded upgrade gives no access and does not restore the old period")
    func upgradeThenRefund() {
        var life = subscribed()
        life.upgrade(to: premium, at: day("2025-01-20"))

        life.refund(at: day("2025-01-25"))

        #expect(life.isActive("2025-01-19T23:59:59.999Z"))
        for date in ["2025-01-20", "2025-01-21", "2025-01-26", "2025-02-09", "2025-02-15"] {
            #expect(!life.isActive(date), "\(date)")
        }
    }

    @Test("a refund of the replaced purchase removes its access only")
    func refundOfUpgraded() {
        var life = subscribed()
        life.upgrade(to: premium, at: day("2025-01-20"))

        life.refund(life.purchases[0].transactionId, at: day("2025-01-25"))

        #expect(!life.isActive("2025-01-15") && life.isActive("2025-01-20") && life.isActive("2025-02-19"))
    }

    @Test("a full refund is preceded by a switch-off of auto-renewal without the refund")
    func refund() throws {
        var life = subscribed()

        life.refund(at: day("2025-01-15"), wasRequestedInApp: true)

        #expect(!life.isActive("2025-01-12"))
        #expect(
            life.sentInVersion2.suffix(3) == [
                "2025-01-14 CONSUMPTION_REQUEST", "2025-01-14 DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED",
                "2025-01-15 REFUND",
            ])
        #expect(life.notifications.dropLast().allSatisfy { $0.subject.revocation == nil })
        #expect(life.notifications.last?.subject.revocation?.kind == .full)
        #expect(life.notifications.last?.status == .revoked)
        #expect(life.sentInVersion1.last == "2025-01-15 CANCEL")
    }

    @Test("a prorated refund ends the period, and version 1 sends no notification")
    func prorated() {
        var life = subscribed()

        life.refundRest(at: day("2025-01-15"))

        #expect(life.isActive("2025-01-14T23:59:59.999Z") && !life.isActive("2025-01-15"))
        #expect(life.notifications.last?.subject.revocation?.kind == .prorated)
        #expect(life.notifications.last?.version1 == nil)
    }

    @Test("an extension lengthens the current period, and the next one begins after it")
    func `extension`() {
        var life = subscribed()
        let id = life.current.transactionId

        life.extend(byDays: 10, at: day("2025-01-15"))
        #expect(life.current.transactionId == id)
        #expect(life.isActive("2025-02-19") && !life.isActive("2025-02-20"))

        life.renew()
        #expect(life.current.purchaseDate == day("2025-02-20"))
    }

    @Test("a family member's access ends at the revocation, the purchaser's continues")
    func family() {
        var purchaser = subscribed()
        var member = newLife(isFamilyMember: true, subscription: 1)
        member.subscribe(to: monthly, at: day("2025-01-10"))

        member.revokeMember(at: day("2025-01-20"))
        purchaser.renew()

        #expect(member.isActive("2025-01-19") && !member.isActive("2025-01-20"))
        #expect(purchaser.isActive("2025-01-20") && purchaser.isActive("2025-02-20"))
        #expect(member.originalTransactionId != purchaser.originalTransactionId)
        #expect(member.notifications.last?.version1 == "REVOKE")
    }

    @Test("a downgrade takes effect at the renewal; a cancelled one does not")
    func downgrade() {
        let basic = Product.subscription(.basic, .monthly, of: testApp.bundleId)
        var life = subscribed()

        life.chooseNext(basic, at: day("2025-01-15"))
        var changed = life
        changed.renew()
        life.chooseNext(monthly, at: day("2025-01-16"))
        life.renew()

        #expect(changed.current.product == basic && life.current.product == monthly)
        #expect(
            changed.sentInVersion2.suffix(2) == [
                "2025-01-15 DID_CHANGE_RENEWAL_PREF/DOWNGRADE", "2025-02-10 DID_RENEW",
            ])
        #expect(life.sentInVersion2.dropLast().last == "2025-01-16 DID_CHANGE_RENEWAL_PREF")
    }

    @Test("a declined price increase ends access with the period; an accepted one is charged")
    func price() {
        var refused = subscribed()
        refused.announcePriceIncrease(at: day("2025-01-15"))
        var accepted = refused

        refused.endForPrice()
        accepted.acceptPriceIncrease(at: day("2025-01-16"))
        accepted.renew()

        #expect(refused.isActive("2025-02-09") && !refused.isActive("2025-02-10"))
        #expect(refused.sentInVersion2.last == "2025-02-10 EXPIRED/PRICE_INCREASE")
        #expect(accepted.isActive("2025-02-10"))
        #expect(accepted.current.price > accepted.purchases[0].price)
    }

    @Test("the notification of a renewal charged early is signed before the period begins")
    func early() {
        var life = subscribed()

        life.renew(charged: day("2025-02-09T12:00:00Z"))

        #expect(life.notifications.last?.signedDate == day("2025-02-09T12:00:00Z"))
        #expect(life.current.purchaseDate == day("2025-02-10"))
        #expect(life.isActive("2025-03-09") && !life.isActive("2025-03-10"))
    }

    @Test("a consumable gives no access, a non-consumable gives access until it is refunded")
    func oneTime() {
        let life = newLife()
        let identifiers = Identifiers(seed: 7, index: 1, subscription: 0)
        let coins = OneTimeLife(
            buying: .consumable(of: testApp.bundleId), quantity: 3, at: day("2025-01-10"), customer: life.customer,
            identifiers: identifiers)
        var owned = OneTimeLife(
            buying: .nonConsumable(of: testApp.bundleId), at: day("2025-01-10"), customer: life.customer,
            identifiers: identifiers)

        #expect(!coins.access.isActive(at: day("2025-01-10")))
        #expect(!owned.access.isActive(at: day("2025-01-09")))
        #expect(owned.access.isActive(at: day("2025-01-10")) && owned.access.isActive(at: day("2099-01-01")))
        owned.refund(at: day("2025-03-01"))
        #expect(!owned.access.isActive(at: day("2025-01-10")))
        #expect(owned.notifications.map { $0.version2?.type } == ["ONE_TIME_CHARGE", "REFUND"])
    }
}
