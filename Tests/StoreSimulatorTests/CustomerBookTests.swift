import StoreSimulator
import Subscriptions
import Testing

/// Customers lived by hand: the answers are written here and not worked out.
@Suite("A customer is entitled by any of the lines")
struct CustomerBookTests {
    private let audio = Product.subscription(.audio, .monthly, of: testApp.bundleId)

    private func end(_ book: EntitlementBook, _ entitlement: String, _ date: String) -> Instant? {
        book.end(of: entitlement, at: day(date))
    }

    @Test("lines that touch are one run of what both give, and each gives what only it gives")
    func touching() {
        var first = newLife()
        var second = newLife(line: 1)
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

    @Test("a gap of a millisecond ends a run")
    func gap() {
        var first = newLife()
        var second = newLife(line: 1)
        first.subscribe(to: monthly, at: day("2025-01-10"))
        second.subscribe(to: monthly, at: day("2025-02-10T00:00:00.001Z"))

        let book = EntitlementBook([first.access, second.access])

        #expect(end(book, "plus", "2025-01-20") == day("2025-02-10"))
        #expect(end(book, "plus", "2025-02-10") == nil)
        #expect(end(book, "plus", "2025-02-10T00:00:00.001Z") == day("2025-03-10T00:00:00.001Z"))
    }

    @Test("a line that is paid back leaves what the other gives")
    func refund() {
        var first = newLife()
        var second = newLife(line: 1)
        first.subscribe(to: premium, at: day("2025-01-10"))
        second.subscribe(to: monthly, at: day("2025-01-20"))

        first.refund(at: day("2025-01-25"))

        let book = EntitlementBook([first.access, second.access])
        #expect(end(book, "premium", "2025-01-15") == nil)
        #expect(end(book, "plus", "2025-01-15") == nil)
        #expect(end(book, "plus", "2025-01-20") == day("2025-02-20"))
    }

    @Test("grace is part of the run, of the product whose renewal failed")
    func grace() {
        var life = newLife()
        life.subscribe(to: premium, at: day("2025-01-10"))
        life.failToRenew(graceDays: 16)

        let book = EntitlementBook([life.access])

        #expect(end(book, "premium", "2025-01-10") == day("2025-02-26"))
        #expect(end(book, "premium", "2025-02-26") == nil)
    }

    @Test("an upgrade ends what the lesser plan alone gave")
    func upgrade() {
        let basic = Product.subscription(.basic, .monthly, of: testApp.bundleId)
        var life = newLife()
        life.subscribe(to: basic, at: day("2025-01-10"))
        life.upgrade(to: premium, at: day("2025-01-20"))

        let book = EntitlementBook([life.access])

        #expect(end(book, "basic", "2025-01-10") == day("2025-01-20"))
        #expect(end(book, "premium", "2025-01-20") == day("2025-02-20"))
    }

    @Test("what is owned has no end; what is used up entitles to nothing")
    func oneTime() {
        let identifiers = Identifiers(seed: 7, index: 0, line: 2)
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

    @Test("what the app did not configure entitles to its own product id")
    func unconfigured() {
        let weekly = Product.subscription(.basic, .weekly, of: testApp.bundleId)
        var life = newLife()
        life.subscribe(to: weekly, at: day("2025-01-10"))

        #expect(weekly.configuredEntitlements.isEmpty)
        #expect(
            EntitlementBook([life.access]).end(of: "com.example.magazine.basic.weekly", at: day("2025-01-10"))
                == day("2025-01-17"))
    }

    @Test("a restore copies the purchase under another line: one period, one web_order_line_item_id, one run")
    func restore() throws {
        var first = newLife()
        var second = newLife(line: 1)
        first.subscribe(to: monthly, at: day("2025-01-10"))
        first.renew()

        second.restore(first)
        #expect(second.told.isEmpty)
        second.switchOff(at: day("2025-02-20"))
        second.switchOn(at: day("2025-02-21"))
        second.renew()

        let (original, copy) = (first.current, second.purchases[0])
        #expect(second.originalTransactionId == copy.transactionId)
        #expect(copy.transactionId != original.transactionId)
        #expect(copy.webOrderLineItemId == original.webOrderLineItemId)
        #expect((copy.purchaseDate, copy.expiresDate) == (day("2025-02-10"), day("2025-03-10")))
        #expect(second.tellings[0].subject == copy)
        #expect(!second.isActive("2025-02-09") && second.isActive("2025-02-10") && second.isActive("2025-04-09"))
        #expect(!first.isActive("2025-03-10"))
        let book = EntitlementBook([first.access, second.access])
        #expect(end(book, "plus", "2025-01-10") == day("2025-04-10"))
    }

    @Test("version 1 tells of all lines of an account in one receipt, as they stood then")
    func receipt() throws {
        var first = newLife()
        var second = newLife(line: 1)
        first.subscribe(to: monthly, at: day("2025-01-10"))
        second.subscribe(to: audio, at: day("2025-01-20"))
        first.renew()
        let lines = [ToldLine(first), ToldLine(second)]

        func rows(_ telling: Telling, _ companion: ToldLine) throws -> [String] {
            let body = try #require(
                telling.version1Body(app: testApp, customer: first.customer, companions: [companion]))
            let receipt = try #require(try JSONDocument(body).root["unified_receipt"])
            #expect(receipt["pending_renewal_info"]?.elements(atMost: 9).count == (telling.purchases.count > 1 ? 2 : 1))
            return try #require(receipt["latest_receipt_info"]).elements(atMost: 9).compactMap {
                $0["transaction_id"]?.string
            }
        }

        #expect(try rows(first.tellings[0], lines[1]) == [first.purchases[0].transactionId])
        #expect(
            try rows(first.tellings[1], lines[1]) == [
                first.purchases[1].transactionId, second.purchases[0].transactionId, first.purchases[0].transactionId,
            ])
    }
}
