import Subscriptions
import Testing

@Suite("The time that the price of a period covers")
struct PricePeriodTests {
    private func pricePeriods(_ change: (inout Transaction) -> Void) -> [String?] {
        let year = row("1000000000000001", "2026-05-01", "2027-05-01", product: "com.example.magazine.yearly") {
            $0.price = 49_990
            change(&$0)
        }
        return Subscription(arriving: [Told("2026-05-01", [year])]).reportingPeriods.map(\.pricePeriod)
    }

    @Test("is the product's own, whether the customer had a choice of billing plans or not")
    func ownPeriod() {
        #expect(pricePeriods { _ in } == [nil])
        #expect(pricePeriods { $0.billingPlanType = "BILLED_UPFRONT" } == [nil])
    }

    @Test("is a month of a yearly commitment that is billed monthly, whatever date Apple reports as its end")
    func billedMonthly() {
        #expect(pricePeriods { $0.billingPlanType = "MONTHLY" } == ["P1M"])
        #expect(
            pricePeriods {
                $0.billingPlanType = "MONTHLY"
                $0.expiresDate = day("2026-06-01")
            } == ["P1M"])
    }

    @Test("is the offer's if it was paid up front, also with monthly billing")
    func paidUpFront() {
        let offer: (inout Transaction) -> Void = {
            $0.offerType = 1
            $0.offerDiscountType = "PAY_UP_FRONT"
            $0.offerPeriod = "P3M"
        }

        #expect(pricePeriods(offer) == ["P3M"])
        #expect(
            pricePeriods {
                offer(&$0)
                $0.billingPlanType = "MONTHLY"
            } == ["P3M"])
        #expect(
            pricePeriods {
                offer(&$0)
                $0.offerDiscountType = "PAY_AS_YOU_GO"
                $0.billingPlanType = "MONTHLY"
            } == ["P1M"])
    }
}
