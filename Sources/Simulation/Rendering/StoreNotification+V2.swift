extension StoreNotification {
    /// The notification of version 2; nil if only version 1 sends it.
    package func version2Notification(app: SimulatedApp, customer: Customer) -> V2Notification? {
        guard let name = version2 else { return nil }
        var data = V2Data(app: app)
        data.transaction = V2Transaction(
            subject, original: purchases.first, app: app, customer: customer, signedDate: signedDate)
        data.renewalInfo = renewalPreference.map {
            V2RenewalInfo($0, of: purchases, app: app, customer: customer, signedDate: signedDate)
        }
        data.status = status?.rawValue
        data.consumptionRequestReason = consumptionRequestReason
        return V2Notification(
            name.type, name.subtype, notificationUUID: notificationUUID, signedDate: signedDate, content: .data(data))
    }
}
