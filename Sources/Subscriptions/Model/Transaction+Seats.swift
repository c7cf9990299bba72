import Encoding

extension Transaction {
    /// The seats that a purchase pays for.
    struct Seats: Sendable, Hashable {
        /// How many were bought; nil if the transaction does not say it.
        var bought: Int?
        /// How many of them were refunded.
        var revoked = 0
        /// What was paid for all of them together, in thousandths of the currency unit; nil if their prices are not known.
        /// ``Transaction/price`` is the average of one seat.
        var price: Int64?

        /// The seats that are left.
        var left: Int? { bought.map { max($0 - revoked, 0) } }

        /// The part of a price that was paid for some of the seats; nil if their number is not known.
        func share(of price: Int64, for seats: Int) -> Int64? {
            guard let bought, bought > 0, price >= 0 else { return nil }
            let product = price.magnitude.multipliedFullWidth(by: UInt64(min(max(seats, 0), bought)))
            return Int64(clamping: UInt64(bought).dividingFullWidth(product).quotient)
        }
    }

    /// The seats that the transaction pays for; nil for a transaction without seats, and for the seat of a member, which
    /// states those of the purchaser.
    var seats: Seats? {
        guard !isPaidByAnother, let info = additional?.object("multiSeatInfo") else { return nil }
        return Seats(
            bought: quantity, revoked: info["revokedSeatQuantity"]?.int64.map { Int(clamping: max($0, 0)) } ?? 0,
            price: Self.price(of: info["priceTiers"]?.elements ?? []))
    }

    /// What was paid for all seats together; nil if they are no prices and numbers.
    package var priceOfSeats: Int64? { seats?.price }

    fileprivate static func price(of tiers: [JSONValue]) -> Int64? {
        guard !tiers.isEmpty else { return nil }
        var sum: Int64 = 0
        for tier in tiers {
            guard let price = tier["price"]?.int64, let quantity = tier["quantity"]?.int64 else { return nil }
            let (amount, isTooLarge) = price.multipliedReportingOverflow(by: quantity)
            let (total, overflow) = sum.addingReportingOverflow(amount)
            guard !isTooLarge, !overflow else { return nil }
            sum = total
        }
        return sum
    }
}

extension RenewalInfo {
    /// What the next renewal costs, in thousandths of the currency unit: that of all seats together, of which
    /// ``renewalPrice`` is the average of one. Nil if it is not known, as that of seats without their prices and number.
    package var priceOfRenewal: Int64? {
        let info = additional?.object("multiSeatInfo")
        if let tiers = info?["renewalPriceTiers"]?.elements, let price = Transaction.price(of: tiers) { return price }
        guard let seats = additional?.field("renewalQuantity")?.int64 else { return info == nil ? renewalPrice : nil }
        guard let renewalPrice, seats > 0 else { return nil }
        let (price, isTooLarge) = renewalPrice.multipliedReportingOverflow(by: seats)
        return isTooLarge ? nil : price
    }

    /// The same with its currency.
    package var nextPrice: AppliedRule.Amount? {
        priceOfRenewal.map { AppliedRule.Amount(thousandths: $0, currency: currency) }
    }
}
