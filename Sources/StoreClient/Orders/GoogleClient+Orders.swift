import Encoding
import PlayStore

extension GoogleClient {
    /// What Google answers about an order.
    enum OrderedPurchase: Sendable {
        case purchase(PurchaseToken)
        /// The order is known, and names no purchase.
        case unnamed
        case unknown
        /// Not an order of the app.
        case refused
        case credentialsRejected
        /// No usable answer.
        case unavailable
    }

    /// Asks for the purchase of an order.
    ///
    /// - Parameter app: Must have credentials.
    func purchase(ofOrder orderId: String, of app: GoogleApp, priority: AskPriority) async -> OrderedPurchase {
        switch await ask(.order(orderId, of: app.packageName), app: app, priority: priority) {
        case .answered(let answer): return Self.purchase(in: answer.body)
        case .refused(let refusal):
            return refusal.kind == .notFound || refusal.kind == .gone ? .unknown : .refused
        case .rejected: return .credentialsRejected
        case .unreadable, .unavailable: return .unavailable
        }
    }

    /// Asks for the purchases of several orders in one call.
    ///
    /// - Parameters:
    ///   - orderIds: At most 1,000.
    ///   - app: Must have credentials.
    /// - Returns: By order, without those that the answer does not have. Empty if Google refuses the question, as it does if it
    ///   does not know one of them: then each must be asked about alone.
    func purchases(
        ofOrders orderIds: [String], of app: GoogleApp, priority: AskPriority
    ) async -> [String: OrderedPurchase] {
        func all(_ purchase: OrderedPurchase) -> [String: OrderedPurchase] {
            Dictionary(orderIds.map { ($0, purchase) }) { $1 }
        }
        switch await ask(.orders(orderIds, of: app.packageName), app: app, priority: priority) {
        case .answered(let answer):
            guard let list = try? OrderList(decoding: answer.body) else { return all(.unavailable) }
            return Dictionary(list.orders.map { ($0.orderId, Self.purchase(in: $0.body)) }) { $1 }
        case .refused: return [:]
        case .rejected: return all(.credentialsRejected)
        case .unreadable, .unavailable: return all(.unavailable)
        }
    }

    /// - Parameter body: What Google answers about an order.
    private static func purchase(in body: [UInt8]) -> OrderedPurchase {
        let named = (try? JSONDocument(body))?.root["purchaseToken"]?.string
        return named.flatMap(PurchaseToken.init).map { OrderedPurchase.purchase($0) } ?? .unnamed
    }
}
