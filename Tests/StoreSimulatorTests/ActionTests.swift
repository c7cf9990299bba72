import StoreSimulator
import Subscriptions
import Testing

@Suite("Each action has the effect that the domain's table gives it")
struct ActionTests {
    private func subscribed() -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-01-10"))
        return life
    }

    @Test("an upgrade cuts the old period; version 2 shows the new purchase alone")
    func upgrade() throws {
        var life = subscribed()

        life.upgrade(to: premium, at: day("2025-01-20"))

        #expect(life.isActive("2025-01-19") && life.isActive("2025-01-20") && life.isActive("2025-02-19"))
        #expect(!life.isActive("2025-02-20"))
        #expect(life.told.last == "2025-01-20 DID_CHANGE_RENEWAL_PREF/UPGRADE")
        #expect(
            life.toldInVersion1.suffix(2) == ["2025-01-20 INTERACTIVE_RENEWAL", "2025-01-20 DID_CHANGE_RENEWAL_STATUS"])
        let telling = try #require(life.tellings.first { $0.version2?.subtype == "UPGRADE" })
        #expect(telling.subject.product == premium)
        #expect(telling.purchases.first?.upgradedAt == day("2025-01-20"))
    }

    @Test("an upgrade that is paid back gives nothing, and does not give the old period back")
    func upgradeThenRefund() {
        var life = subscribed()
        life.upgrade(to: premium, at: day("2025-01-20"))

        life.refund(at: day("2025-01-25"))

        #expect(life.isActive("2025-01-19T23:59:59.999Z"))
        for date in ["2025-01-20", "2025-01-21", "2025-01-26", "2025-02-09", "2025-02-15"] {
            #expect(!life.isActive(date), "\(date)")
        }
    }

    @Test("the replaced purchase paid back takes its part, the better plan stays")
    func refundOfUpgraded() {
        var life = subscribed()
        life.upgrade(to: premium, at: day("2025-01-20"))

        life.refund(life.purchases[0].transactionId, at: day("2025-01-25"))

        #expect(!life.isActive("2025-01-15") && life.isActive("2025-01-20") && life.isActive("2025-02-19"))
    }

    @Test("a full refund tells first that renewal is off, with the purchase still standing")
    func refund() throws {
        var life = subscribed()

        life.refund(at: day("2025-01-15"), wasRequestedInApp: true)

        #expect(!life.isActive("2025-01-12"))
        #expect(
            life.told.suffix(3) == [
                "2025-01-14 CONSUMPTION_REQUEST", "2025-01-14 DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED",
                "2025-01-15 REFUND",
            ])
        #expect(life.tellings.dropLast().allSatisfy { $0.subject.revocation == nil })
        #expect(life.tellings.last?.subject.revocation?.kind == .full)
        #expect(life.tellings.last?.status == .revoked)
        #expect(life.toldInVersion1.last == "2025-01-15 CANCEL")
    }

    @Test("a prorated refund cuts, and version 1 has none")
    func prorated() {
        var life = subscribed()

        life.refundRest(at: day("2025-01-15"))

        #expect(life.isActive("2025-01-14T23:59:59.999Z") && !life.isActive("2025-01-15"))
        #expect(life.tellings.last?.subject.revocation?.kind == .prorated)
        #expect(life.tellings.last?.version1 == nil)
    }

    @Test("an extension makes the same period longer, and the next one begins behind it")
    func `extension`() {
        var life = subscribed()
        let id = life.current.transactionId

        life.extend(byDays: 10, at: day("2025-01-15"))
        #expect(life.current.transactionId == id)
        #expect(life.isActive("2025-02-19") && !life.isActive("2025-02-20"))

        life.renew()
        #expect(life.current.purchaseDate == day("2025-02-20"))
    }

    @Test("a family member's access ends at the revocation, the purchaser's goes on")
    func family() {
        var purchaser = subscribed()
        var member = newLife(isFamilyMember: true, line: 1)
        member.subscribe(to: monthly, at: day("2025-01-10"))

        member.revokeFamilyAccess(at: day("2025-01-20"))
        purchaser.renew()

        #expect(member.isActive("2025-01-19") && !member.isActive("2025-01-20"))
        #expect(purchaser.isActive("2025-01-20") && purchaser.isActive("2025-02-20"))
        #expect(member.originalTransactionId != purchaser.originalTransactionId)
        #expect(member.tellings.last?.version1 == "REVOKE")
    }

    @Test("a downgrade waits for the renewal; taken back, it never comes")
    func downgrade() {
        let basic = Product.subscription(.basic, .monthly, of: testApp.bundleId)
        var life = subscribed()

        life.chooseNext(basic, at: day("2025-01-15"))
        var changed = life
        changed.renew()
        life.chooseNext(monthly, at: day("2025-01-16"))
        life.renew()

        #expect(changed.current.product == basic && life.current.product == monthly)
        #expect(changed.told.suffix(2) == ["2025-01-15 DID_CHANGE_RENEWAL_PREF/DOWNGRADE", "2025-02-10 DID_RENEW"])
        #expect(life.told.dropLast().last == "2025-01-16 DID_CHANGE_RENEWAL_PREF")
    }

    @Test("a price refused ends with the period; accepted, it is charged")
    func price() {
        var refused = subscribed()
        refused.announcePriceIncrease(at: day("2025-01-15"))
        var accepted = refused

        refused.endForPrice()
        accepted.acceptPriceIncrease(at: day("2025-01-16"))
        accepted.renew()

        #expect(refused.isActive("2025-02-09") && !refused.isActive("2025-02-10"))
        #expect(refused.told.last == "2025-02-10 EXPIRED/PRICE_INCREASE")
        #expect(accepted.isActive("2025-02-10"))
        #expect(accepted.current.price > accepted.purchases[0].price)
    }

    @Test("a renewal charged early is told before it begins")
    func early() {
        var life = subscribed()

        life.renew(charged: day("2025-02-09T12:00:00Z"))

        #expect(life.tellings.last?.signedDate == day("2025-02-09T12:00:00Z"))
        #expect(life.current.purchaseDate == day("2025-02-10"))
        #expect(life.isActive("2025-03-09") && !life.isActive("2025-03-10"))
    }

    @Test("a consumable gives no access, a non-consumable until it is paid back")
    func oneTime() {
        let life = newLife()
        let identifiers = Identifiers(seed: 7, index: 1, line: 0)
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
        #expect(owned.tellings.map { $0.version2?.type } == ["ONE_TIME_CHARGE", "REFUND"])
    }
}
