import Testing

@testable import Console

@Suite("Amounts of figures have the digits of their currency")
struct FigureAmountTests {
    @Test(
        "a part of a price is rounded to the digits that the currency has",
        arguments: [
            ("178.301", "BRL", "178.30"), ("0.995", "EUR", "1.00"), ("10845.4", "JPY", "10845"),
            ("3.125", "KWD", "3.125"), ("4.166", "none", "4.17"), ("-178.301", "BRL", "−178.30"), ("?", "EUR", "?"),
        ])
    func rounded(text: String, currency: String, expected: String) {
        #expect(FigurePage.rounded(text, currency) == expected)
    }

    @Test(
        "on tiles, thousands are apart",
        arguments: [
            ("10845", "JPY", "10\u{202F}845"), ("1234567.891", "BRL", "1\u{202F}234\u{202F}567.89"),
            ("12.5", "EUR", "12.50"), ("?", "EUR", "?"),
        ])
    func grouped(text: String, currency: String, expected: String) {
        #expect(FigurePage.grouped(text, currency) == expected)
    }
}
