extension Int64 {
    /// A price in thousandths of the currency unit, with the digits that the currency has, or more if it needs them.
    ///
    /// - Source: ISO 4217, currencies without a minor unit.
    package func amount(in currency: String?) -> String {
        let (whole, part) = magnitude.quotientAndRemainder(dividingBy: 1000)
        let sign = self < 0 ? "−" : ""
        if part == 0, Self.hasNoMinorUnit(currency) { return "\(sign)\(whole)" }
        let digits = part % 10 == 0 ? String(100 + part / 10).dropFirst() : String(1000 + part).dropFirst()
        return "\(sign)\(whole).\(digits)"
    }

    package static func hasNoMinorUnit(_ currency: String?) -> Bool { currency.map(withoutMinorUnit.contains) ?? false }

    /// Whether the currency has three digits after the point.
    ///
    /// - Source: ISO 4217.
    package static func hasThreeDigits(_ currency: String?) -> Bool { currency.map(threeDigits.contains) ?? false }

    private static let threeDigits: Set<String> = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"]
    private static let withoutMinorUnit: Set<String> = [
        "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF",
        "XPF",
    ]
}
