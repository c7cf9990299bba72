import Encoding

extension JSONFields {
    /// The amount of a `Money` in thousandths, and its currency. Missing units and nanos are zero.
    mutating func money() -> (price: Int64?, currency: String?) {
        let currency = text("currencyCode")
        let units = integer64("units") ?? 0
        let nanos = integer64("nanos") ?? 0
        let (whole, overflow) = units.multipliedReportingOverflow(by: 1000)
        guard !overflow, nanos.magnitude < 1_000_000_000 else {
            note("units", "is not an amount")
            return (nil, currency)
        }
        let (price, tooLarge) = whole.addingReportingOverflow(rounded(nanos, per: 1_000_000, "nanos"))
        return (tooLarge ? nil : price, currency)
    }

    /// The amount of the `Money` that a field contains, in thousandths.
    mutating func amount(_ key: StaticString) -> Int64? {
        guard var money = object(key) else { return nil }
        defer { add(money) }
        return money.money().price
    }

    /// To the nearest thousandth. The exact amount stays in the stored answer.
    private mutating func rounded(_ amount: Int64, per thousandth: Int64, _ key: StaticString) -> Int64 {
        let (quotient, rest) = amount.quotientAndRemainder(dividingBy: thousandth)
        guard rest != 0 else { return quotient }
        note(key, "is not a whole number of thousandths, and is rounded")
        return quotient + (rest.magnitude * 2 >= thousandth.magnitude ? rest.signum() : 0)
    }
}
