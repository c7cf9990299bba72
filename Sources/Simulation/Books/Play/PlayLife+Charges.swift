import Encoding

// MARK: - What was paid for

extension PlayLife {
    /// Records what the last payment of the newest token paid for: a purchase for each product. The first one is the plan,
    /// the others were bought beside it.
    mutating func charge(_ reason: Purchase.Reason, from start: Instant, to end: Instant) {
        let order = orders.last { $0.orderId == book.items[0].successfulOrderId }
        let items = book.items.filter { !$0.isDeferred }
        for (number, item) in items.enumerated() {
            let paid = order?.items.first { $0.productId == item.plan.productId }
            var charge = Purchase(
                transactionId: Self.period(order?.orderId ?? current.token, item.plan.productId),
                webOrderLineItemId: nil, product: item.plan.charged, purchaseDate: start, expiresDate: end,
                reason: reason, offer: item.offer.flatMap { $0.phase == item.phase ? $0.asOffer : nil },
                price: paid?.price ?? 0, quantity: 1)
            charge.isPrepaid = !item.plan.isRenewing
            charge.isAddOn = number > 0
            charges.append(charge)
        }
    }

    mutating func changeCharges(_ transactionIds: [String], _ change: (inout Purchase) -> Void) {
        for index in charges.indices where transactionIds.contains(charges[index].transactionId) {
            change(&charges[index])
        }
    }

    /// Records why access will end with the last payment; nil if it will not.
    mutating func end(by ending: Ending?) {
        for period in currentPeriods() { endings[period] = ending }
    }

    /// Records that the payment that failed last was made up for, unless that took more than 60 days.
    mutating func recoverLater(at instant: Instant) {
        let number = failures.count - 1
        let retried = SubscriptionLife.retryDays(nil) * Draw.dayMilliseconds
        if instant <= failures[number].due.advanced(byMilliseconds: retried) { failures[number].recovery = .later }
    }

    /// Records that the payment after the last one failed.
    mutating func fail(dueAt due: Instant) {
        guard let period = currentPeriods().first else { return }
        failures.append(FailedRenewal(transactionId: period, product: plan.charged, due: due))
    }
}

extension PlayPlan {
    /// The product with the length of the period that one payment pays for.
    fileprivate var charged: Product {
        guard case .installments = kind else { return product }
        return Product(
            id: product.id, kind: product.kind, tier: product.tier, duration: Period.monthly.duration,
            basePrice: product.basePrice)
    }
}

extension PlayOffer {
    /// Google Play charges a discounted phase once, when it begins.
    fileprivate var asOffer: Offer {
        Offer(
            .introductory, phase == .freeTrial ? "FREE_TRIAL" : "PAY_UP_FRONT",
            period: period.months > 0 ? "P\(period.months)M" : "P\(period.days)D", identifier: offerId)
    }
}

// MARK: - What was paid back

extension PlayOrder {
    /// What was paid back of one of its products. Of an order for several products, an amount says nothing of each.
    func paidBack(of item: Item) -> [PaidBack] {
        guard item.price > 0 else { return [] }
        guard items.count(where: { $0.price > 0 }) > 1 else {
            return refunds.map { PaidBack(at: $0.at, amount: $0.amount, isWhole: !$0.isPartial) }
        }
        precondition(!refunds.contains(where: \.isPartial), "an amount of several products")
        return refunds.map { PaidBack(at: $0.at, amount: item.price, isWhole: true) }
    }
}
