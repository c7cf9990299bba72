import Encoding

extension PlaySimulation {
    /// The expected figures of `analyst.revenue` in production, by product and currency, once every order is known. They are
    /// those of the store's books. Amounts are in thousandths of the currency's unit; figures of 0 are omitted.
    ///
    /// - Parameter acknowledged: When the server acknowledged purchases, by the number of the story and by purchase token.
    package func figures(acknowledged: [Int: [String: Instant]] = [:]) -> Figures {
        var figures = Figures()
        for index in 0..<count {
            let rendered = storyteller.story(at: index, acknowledged: acknowledged[index] ?? [:])
            guard !rendered.story.isTest else { continue }
            for order in rendered.orders { figures.add(order) }
        }
        return figures
    }
}

extension Figures {
    /// Of an order for several products, an amount that was paid back says nothing of each.
    fileprivate mutating func add(_ order: PlayOrder) {
        guard order.changes.contains(where: { $0.state == .processed }) else { return }
        let paid = order.items.filter { $0.price > 0 }
        let isPaidBack = order.refunded() == order.total
        precondition(isPaidBack || order.refunded() == 0 || paid.count == 1, "an amount of several products")
        for item in paid {
            let product = [item.productId, item.basePlanId].compactMap(\.self).joined(separator: ":")
            add(1, "google_revenue", product, order.currency, "payments")
            add(item.price, "google_revenue", product, order.currency, "gross")
            add(isPaidBack ? item.price : order.refunded(), "google_revenue", product, order.currency, "refunded")
        }
    }
}
