import Encoding
import Simulation
import Testing

/// Scripted customers with literal expected answers.
@Suite("A customer has the entitlements of all subscriptions")
struct CustomerBookTests {
    private let audio = Product.subscription(.audio, .monthly, of: testApp.bundleId)

    private func end(_ book: EntitlementBook, _ entitlement: String, _ date: String) -> Instant? {
        book.end(of: entitlement, at: day(date))
    }

    @Test("adjacent periods merge for shared entitlements, and other entitlements keep their own period")
    func touching() {
        var first = newLife()
        var second = newLife(subscription: 1)
        // Premium gives premium and plus, [Jan 10, Feb 10).
        first.subscribe(to: premium, at: day("2025-01-10"))
        // Plus gives plus, [Feb 10, Mar 10).
        second.subscribe(to: monthly, at: day("2025-02-10"))

        let book = EntitlementBook([second.access, first.access])

        #expect(end(book, "plus", "2025-01-10") == day("2025-03-10"))
        #expect(end(book, "plus", "2025-02-10") == day("2025-03-10"))
        #expect(end(book, "plus", "2025-03-10") == nil)
        #expect(end(book, "plus", "2025-01-09T23:59:59.999Z") == nil)
        #expect(end(book, "premium", "2025-02-09T23:59:59.999Z") == day("2025-02-10"))
        #expect(end(book, "premium", "2025-02-10") == nil)
        #expect(end(book, "audio", "2025-01-10") == nil)
    }

    @Test("a gap of one millisecond interrupts access")
    func gap() {
        var first = newLife()
        var second = newLife(subscription: 1)
        first.subscribe(to: monthly, at: day("2025-01-10"))
        second.subscribe(to: monthly, at: day("2025-02-10T00:00:00.001Z"))

        let book = EntitlementBook([first.access, second.access])

        #expect(end(book, "plus", "2025-01-20") == day("2025-02-10"))
        #expect(end(book, "plus", "2025-02-10") == nil)
        #expect(end(book, "plus", "2025-02-10T00:00:00.001Z") == day("2025-03-10T00:00:00.001Z"))
    }

    @Test("a refunded subscription leaves the entitlements of the other one")
    func refund() {
        var first = newLife()
        var second = newLife(subscription: 1)
        first.subscribe(to: premium, at: day("2025-01-10"))
        second.subscribe(to: monthly, at: day("2025-01-20"))

        first.refund(at: day("2025-01-25"))

        let book = EntitlementBook([first.access, second.access])
        #expect(end(book, "premium", "2025-01-15") == nil)
        #expect(end(book, "plus", "2025-01-15") == nil)
        #expect(end(book, "plus", "2025-01-20") == day("2025-02-20"))
    }

    @Test("grace continues access to the product whose renewal failed")
    func grace() {
        var life = newLife()
        life.subscribe(to: premium, at: day("2025-01-10"))
        life.failToRenew(graceDays: 16)

        let book = EntitlementBook([life.access])

        #expect(end(book, "premium", "2025-01-10") == day("2025-02-26"))
        #expect(end(book, "premium", "2025-02-26") == nil)
    }

    @Test("an upgrade ends the entitlements that only the old plan had")
    func upgrade() {
        let basic = Product.subscription(.basic, .monthly, of: testApp.bundleId)
        var life = newLife()
        life.subscribe(to: basic, at: day("2025-01-10"))
        life.upgrade(to: premium, at: day("2025-01-20"))

        let book = EntitlementBook([life.access])

        #expect(end(book, "basic", "2025-01-10") == day("2025-01-20"))
        #expect(end(book, "premium", "2025-01-20") == day("2025-02-20"))
    }

    @Test("a non-consumable gives an entitlement without end; a consumable gives none")
    func oneTime() {
        let identifiers = Identifiers(seed: 7, index: 0, subscription: 2)
        let customer = newLife().customer
        let owned = OneTimeLife(
            buying: .nonConsumable(of: testApp.bundleId), at: day("2025-01-10"), customer: customer,
            identifiers: identifiers)
        let used = OneTimeLife(
            buying: .consumable(of: testApp.bundleId), at: day("2025-01-10"), customer: customer,
            identifiers: identifiers)

        let book = EntitlementBook([owned.access, used.access])

        #expect(end(book, "premium", "2026-01-10") == .latest)
        #expect(end(book, "com.example.magazine.coins", "2025-01-10") == nil)
    }

    @Test("a product without configuration gives an entitlement named by its product id")
    func unconfigured() {
        let weekly = Product.subscription(.basic, .weekly, of: testApp.bundleId)
        var life = newLife()
        life.subscribe(to: weekly, at: day("2025-01-10"))

        #expect(weekly.configuredEntitlements.isEmpty)
        #expect(
            EntitlementBook([life.access]).end(of: "com.example.magazine.basic.weekly", at: day("2025-01-10"))
                == day("2025-01-17"))
    }

    @Test("a restore copies the purchase to a new subscription with the same period and web_order_line_item_id")
    func restore() throws {
        var first = newLife()
        var second = newLife(subscription: 1)
        first.subscribe(to: monthly, at: day("2025-01-10"))
        first.renew()

        second.restore(first, at: day("2025-02-12"))
        #expect(second.sentInVersion2.isEmpty)
        second.switchOff(at: day("2025-02-20"))
        second.switchOn(at: day("2025-02-21"))
        second.renew()

        let (original, copy) = (first.current, second.purchases[0])
        #expect(second.originalTransactionId == copy.transactionId)
        #expect(copy.transactionId != original.transactionId)
        #expect(copy.webOrderLineItemId == original.webOrderLineItemId)
        #expect((copy.purchaseDate, copy.expiresDate) == (day("2025-02-10"), day("2025-03-10")))
        #expect(second.notifications[0].subject == copy)
        #expect(!second.isActive("2025-02-09") && second.isActive("2025-02-10") && second.isActive("2025-04-09"))
        #expect(!first.isActive("2025-03-10"))
        let book = EntitlementBook([first.access, second.access])
        #expect(end(book, "plus", "2025-01-10") == day("2025-04-10"))
    }

    @Test("the version 1 receipt contains all subscriptions of the account in their state at that time")
    func receipt() throws {
        var first = newLife()
        var second = newLife(subscription: 1)
        first.subscribe(to: monthly, at: day("2025-01-10"))
        second.subscribe(to: audio, at: day("2025-01-20"))
        first.renew()
        let subscriptions = [SimulatedSubscription(first), SimulatedSubscription(second)]

        func rows(_ notification: StoreNotification, _ companion: SimulatedSubscription) throws -> [String] {
            let body = try #require(
                notification.version1Body(app: testApp, customer: first.customer, companions: [companion]))
            let receipt = try #require(try JSONDocument(body).root["unified_receipt"])
            #expect(
                receipt["pending_renewal_info"]?.elements(atMost: 9).count == (notification.purchases.count > 1 ? 2 : 1)
            )
            return try #require(receipt["latest_receipt_info"]).elements(atMost: 9).compactMap {
                $0["transaction_id"]?.string
            }
        }

        #expect(try rows(first.notifications[0], subscriptions[1]) == [first.purchases[0].transactionId])
        #expect(
            try rows(first.notifications[1], subscriptions[1]) == [
                first.purchases[1].transactionId, second.purchases[0].transactionId, first.purchases[0].transactionId,
            ])
    }
}
