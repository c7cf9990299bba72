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
            for life in rendered.subscriptions {
                for order in life.orders { figures.add(order, keeping: 0) }
            }
            for life in rendered.oneTimePurchases {
                let left = life.history.last?.book.refundableQuantity ?? 0
                for order in life.orders { figures.add(order, keeping: left, of: life.quantity) }
            }
        }
        return figures
    }
}

extension Figures {
    /// - Parameters:
    ///   - left: The units that were not refunded, of an order that was refunded in part.
    ///   - quantity: The units that were bought.
    fileprivate mutating func add(_ order: PlayOrder, keeping left: Int, of quantity: Int = 1) {
        guard order.changes.contains(where: { $0.state == .processed }) else { return }
        for item in order.items where item.price > 0 {
            let product = [item.productId, item.basePlanId].compactMap(\.self).joined(separator: ":")
            let paidBack: Int64 =
                switch order.changes.last?.state {
                case .refunded: item.price
                case .partiallyRefunded: item.price - Self.quotient(item.price * Int64(left), Int64(quantity))
                case .pending, .processed, .canceled, nil: 0
                }
            add(1, "google_revenue", product, order.currency, "payments")
            add(item.price, "google_revenue", product, order.currency, "gross")
            add(paidBack, "google_revenue", product, order.currency, "refunded")
        }
    }
}
