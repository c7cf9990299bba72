/// An endpoint of the App Store Server API. The raw values are labels of metrics.
package enum ServerAPIEndpoint: String, Sendable, Hashable, CaseIterable {
    case transactionInfo = "transaction_info"
    case history
    case statuses
    case notificationHistory = "notification_history"
    case consumption
    case testNotification = "test_notification"
    case testNotificationStatus = "test_notification_status"
    case extend
    case extendAll = "extend_all"
    case extendAllStatus = "extend_all_status"
    case accountToken = "account_token"
    case orderLookup = "order_lookup"
    case refundHistory = "refund_history"

    /// The requests per second and app that Apple accepts in production; a tenth of them in the sandbox.
    ///
    /// - Source: Apple, "Identifying rate limits".
    package var perSecond: Int {
        switch self {
        case .transactionInfo, .history, .statuses, .notificationHistory, .consumption: 50
        case .extend, .accountToken: 20
        case .orderLookup, .refundHistory: 10
        // Apple publishes no limit for the status of an extension.
        case .testNotification, .testNotificationStatus, .extendAll, .extendAllStatus: 1
        }
    }

    /// The requests to make at most: half of what Apple accepts, because other programs may use the same key.
    ///
    /// Apple counts by the hour. A bucket that is full at first adds its burst to the first hour, which is less than the
    /// other half.
    package func budget(_ host: ReceiptHost) -> CallBudget {
        let perMinute = perSecond * 60 / 2
        return CallBudget(callsPerMinute: max(1, host == .production ? perMinute : perMinute / 10), concurrency: 8)
    }
}
