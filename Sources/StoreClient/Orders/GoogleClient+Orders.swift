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
        case .answered(let answer):
            let named = (try? JSONDocument(answer.body))?.root["purchaseToken"]?.string
            return named.flatMap(PurchaseToken.init).map { OrderedPurchase.purchase($0) } ?? .unnamed
        case .refused(let refusal):
            return refusal.kind == .notFound || refusal.kind == .gone ? .unknown : .refused
        case .rejected: return .credentialsRejected
        case .unreadable, .unavailable: return .unavailable
        }
    }
}
