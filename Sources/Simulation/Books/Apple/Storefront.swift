/// The App Store of one country and its currency.
package struct Storefront: Sendable, Hashable {
    /// ISO 3166-1 alpha-3.
    package let country: String
    /// Apple's numeric id of the storefront.
    package let id: String
    /// ISO 4217.
    package let currency: String
    /// The price of one US dollar, in hundredths of the currency's unit.
    let dollarPercent: Int64
    /// Prices are multiples of this, in thousandths of the currency's unit.
    let smallestStep: Int64

    package static let all = [
        Storefront(country: "USA", id: "143441", currency: "USD", dollarPercent: 100, smallestStep: 10),
        Storefront(country: "JPN", id: "143462", currency: "JPY", dollarPercent: 15_000, smallestStep: 10_000),
        Storefront(country: "DEU", id: "143443", currency: "EUR", dollarPercent: 110, smallestStep: 10),
        Storefront(country: "GBR", id: "143444", currency: "GBP", dollarPercent: 90, smallestStep: 10),
        Storefront(country: "AUT", id: "143445", currency: "EUR", dollarPercent: 110, smallestStep: 10),
        Storefront(country: "BRA", id: "143503", currency: "BRL", dollarPercent: 500, smallestStep: 100),
    ]

    /// The price in this storefront, in thousandths of the currency's unit like Apple's `price`.
    package func price(_ product: Product) -> Int64 {
        max(smallestStep, product.basePrice * dollarPercent / 100 / smallestStep * smallestStep)
    }

    /// Each of the twelve charges of a year that is billed monthly, a fifth more than a year billed at once.
    package func monthlyPrice(_ product: Product) -> Int64 {
        max(smallestStep, price(product) / 10 / smallestStep * smallestStep)
    }
}
