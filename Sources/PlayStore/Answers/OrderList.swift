import Encoding
import Subscriptions

/// Some orders, as Google answers about several at once.
package struct OrderList: Sendable {
    package struct Order: Sendable {
        package let orderId: String
        /// What Google answers about the order alone.
        package let body: [UInt8]
        /// Whether something was paid back, or the state is none in which nothing was.
        package let mayBeRefunded: Bool
    }

    package let orders: [Order]

    package init(decoding body: [UInt8]) throws(UnreadableJSON) {
        guard let root = try? JSONDocument(body).root, root.isObject else { throw .notAnObject }
        var fields = JSONFields(root)
        var orders: [Order] = []
        for var order in fields.objects("orders", limit: Limits.ordersMax) {
            guard let orderId = order.identifier("orderId") else { continue }
            let state = order.name("state", without: "")
            var mayBeRefunded = state != "PROCESSED" && state != "PENDING"
            if var history = order.object("orderHistory") {
                mayBeRefunded =
                    mayBeRefunded || history.raw("refundEvent") != nil || history.raw("partialRefundEvents") != nil
            }
            orders.append(Order(orderId: orderId, body: order.object.bytes, mayBeRefunded: mayBeRefunded))
        }
        self.orders = orders
    }
}
