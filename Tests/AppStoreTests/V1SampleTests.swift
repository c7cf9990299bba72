import AppStore
import Encoding
import Subscriptions
import Testing

/// The bodies published in Apple's articles, compared with facts read from them by hand.
@Suite("Published V1 samples")
struct V1SampleTests {
    private func transaction(product: String?) -> Transaction {
        var transaction = Transaction(
            transactionId: "1000000589784549", originalTransactionId: "1000000588791509")
        transaction.webOrderLineItemId = "1000000048103370"
        transaction.productId = product
        transaction.subscriptionGroupIdentifier = "20567235"
        transaction.quantity = 1
        transaction.purchaseDate = Instant(milliseconds: 1_573_200_706_000)
        transaction.originalPurchaseDate = Instant(milliseconds: 1_573_035_439_000)
        transaction.expiresDate = Instant(milliseconds: 1_573_200_886_000)
        transaction.statesRevocation = false
        transaction.isTrialPeriod = false
        transaction.isInIntroOfferPeriod = false
        return transaction
    }

    private func renewal(product: String?) -> RenewalInfo {
        var renewal = RenewalInfo(originalTransactionId: "1000000588791509")
        renewal.productId = product
        renewal.autoRenewProductId = product
        renewal.autoRenewStatus = false
        renewal.autoRenewStatusChangeDate = Instant(milliseconds: 1_573_200_835_000)
        return renewal
    }

    @Test(
        "the completed samples give the same facts under either receipt key",
        arguments: [
            "seed000-did-change-renewal-status", "seed000-did-change-renewal-status.expired-keys",
        ])
    func filled(name: String) throws {
        let event = try event(fixture: name)

        #expect(event.source == .appleV1)
        #expect(event.environment == .sandbox)
        #expect(event.app == "com.example.magazine")
        #expect(event.type == "DID_CHANGE_RENEWAL_STATUS")
        #expect(event.subtype == nil)
        #expect(event.kind == .autoRenewChange)
        #expect(event.occurredAt == Instant(milliseconds: 1_573_200_835_000))
        #expect(event.transactions == [transaction(product: "com.example.magazine.monthly")])
        #expect(event.transactions.allSatisfy { !$0.statesRevocation }, "old receipts do not state revocation")
        #expect(event.renewals == [renewal(product: "com.example.magazine.monthly")])
        #expect(event.defects == [])
    }

    @Test("the sample with the article's blanks gives the same facts without the blank ones, and no defect")
    func verbatim() throws {
        let event = try event(fixture: "seed000-did-change-renewal-status.verbatim")

        #expect(event.environment == .sandbox)
        #expect(event.app == nil)
        #expect(event.type == "DID_CHANGE_RENEWAL_STATUS")
        #expect(event.occurredAt == Instant(milliseconds: 1_573_200_835_000))
        #expect(event.transactions == [transaction(product: nil)])
        #expect(event.renewals == [renewal(product: nil)])
        #expect(event.defects == [])
    }

    @Test("the sample's period lasts until its expiry although renewal is off")
    func access() throws {
        let subscription = fold(
            [try event(fixture: "seed000-did-change-renewal-status")], subscription: "1000000588791509")

        #expect(subscription.isActive(at: day("2019-11-08T08:11:46Z")))
        #expect(subscription.status(at: day("2019-11-08T08:14:45.999Z")) == .activeWillEnd)
        #expect(subscription.status(at: day("2019-11-08T08:14:46Z")) == .expired)
    }
}
