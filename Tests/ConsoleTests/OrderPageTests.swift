import Encoding
import EventLog
import Readers
import Subscriptions
import Testing

@testable import Console

@Suite("The page of an order says which purchases are in it")
struct OrderPageTests {
    private static func page(_ transactionIds: [String], knowing subscription: Subscription?) throws -> OrderPage {
        let hit = SearchHit(
            kind: "purchase", app: "a", environment: "production", target: .customer(id: "100", kind: "subscription"))
        return OrderPage(
            number: try #require(OrderNumber("MK5TTTVWJH")),
            purchases: [
                OrderPage.Purchase(
                    hit: hit, subscription: subscription, transactionIds: transactionIds,
                    names: ["com.example.monthly": "Monthly"])
            ], at: TimelineTests.at(60), address: Address("search"))
    }

    private static func csv(_ page: OrderPage) -> [String] {
        page.tables[0].csv.split(separator: "\r\n").dropFirst().map(String.init)
    }

    @Test("each transaction has its product, date, amount and state, and its subscription and customer are linked")
    func transactions() throws {
        let page = try Self.page(["101", "102", "103"], knowing: TimelineTests.story.subscription)
        var html = HTMLWriter()
        page.write(in: TimelineTests.frame, to: &html)
        let text = String(decoding: html.bytes, as: UTF8.self)

        #expect(
            Self.csv(page) == [
                "101,\(TimelineTests.at(7)),com.example.monthly,2.99 EUR,access ended on 22 Jul 2025 15:06 UTC,100,the customer,a",
                "102,\(TimelineTests.at(37)),com.example.monthly,2.99 EUR,refunded on 30 Jul 2025 15:06 UTC,100,the customer,a",
                "103,\(TimelineTests.at(50)),com.example.monthly,2.99 EUR,active until 3 Sep 2025 15:06 UTC,100,the customer,a",
            ])
        #expect(text.contains("href=\"/console/subscriptions/100?stream=production%3Aa\">100</a>"), "\(text)")
        #expect(text.contains("as=subscription&amp;found=MK5TTTVWJH\">the customer</a>"), "\(text)")
        #expect(text.contains("Monthly <small"))
    }

    @Test("a purchase that is not known yet is one row with its links")
    func unknown() throws {
        #expect(Self.csv(try Self.page(["7"], knowing: nil)) == [",,,,not known,100,the customer,a"])
        let other = try Self.page(["7"], knowing: TimelineTests.story.subscription)
        #expect(Self.csv(other) == [",,,,not known,100,the customer,a"])
    }
}
