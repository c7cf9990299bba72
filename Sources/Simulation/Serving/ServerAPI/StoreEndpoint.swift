import Subscriptions

/// An endpoint of the simulated App Store Server API.
package enum StoreEndpoint: String, Sendable, Hashable, CaseIterable {
    case transactionInfo = "transaction_info"
    case history
    case statuses
    case refundHistory = "refund_history"
    case orderLookup = "order_lookup"
    case notificationHistory = "notification_history"
    case testNotification = "test_notification"
    case testNotificationStatus = "test_notification_status"
    case consumption
    case consumptionV1 = "consumption_v1"
    case accountToken = "account_token"
    case extend
    case extendAll = "extend_all"
    case extendAllStatus = "extend_all_status"

    /// The method and the path after `/inApps`. A star stands for any segment.
    private var template: (method: String, path: [String]) {
        switch self {
        case .transactionInfo: ("GET", ["v1", "transactions", "*"])
        case .history: ("GET", ["v2", "history", "*"])
        case .statuses: ("GET", ["v1", "subscriptions", "*"])
        case .refundHistory: ("GET", ["v2", "refund", "lookup", "*"])
        case .orderLookup: ("GET", ["v1", "lookup", "*"])
        case .notificationHistory: ("POST", ["v1", "notifications", "history"])
        case .testNotification: ("POST", ["v1", "notifications", "test"])
        case .testNotificationStatus: ("GET", ["v1", "notifications", "test", "*"])
        case .consumption: ("PUT", ["v2", "transactions", "consumption", "*"])
        case .consumptionV1: ("PUT", ["v1", "transactions", "consumption", "*"])
        case .accountToken: ("PUT", ["v1", "transactions", "*", "appAccountToken"])
        case .extend: ("PUT", ["v1", "subscriptions", "extend", "*"])
        case .extendAll: ("POST", ["v1", "subscriptions", "extend", "mass"])
        case .extendAllStatus: ("GET", ["v1", "subscriptions", "extend", "mass", "*", "*"])
        }
    }

    /// Finds the endpoint of a request, with the segments that stand for the stars; nil if there is none.
    static func matching(_ method: String, _ path: [String]) -> (endpoint: StoreEndpoint, parameters: [String])? {
        for endpoint in allCases {
            let template = endpoint.template
            guard template.method == method, template.path.count == path.count,
                zip(template.path, path).allSatisfy({ $0 == "*" || $0 == $1 })
            else { continue }
            return (endpoint, zip(template.path, path).filter { $0.0 == "*" }.map(\.1))
        }
        return nil
    }

    /// Requests per second in production; nil if Apple does not publish a limit.
    private var perSecond: Int? {
        switch self {
        case .transactionInfo, .history, .statuses, .notificationHistory, .consumption, .consumptionV1: 50
        case .accountToken, .extend: 20
        case .refundHistory, .orderLookup: 10
        case .testNotification, .testNotificationStatus, .extendAll: 1
        case .extendAllStatus: nil
        }
    }

    /// Whether a host has the endpoint.
    func exists(on host: Subscriptions.Environment) -> Bool { self != .orderLookup || host == .production }

    /// Requests per hour and app. The sandbox has a tenth of production's; nil for no limit.
    package func hourlyLimit(_ host: Subscriptions.Environment) -> Int? {
        perSecond.map { host == .production ? $0 * 3600 : $0 * 360 }
    }
}
