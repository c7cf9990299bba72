import Encoding

extension StoreNotification {
    /// The notification of version 2; nil if only version 1 sends it.
    package func version2Notification(app: SimulatedApp, customer: Customer) -> V2Notification? {
        guard let name = version2 else { return nil }
        guard unclaimedSeats.isEmpty else {
            return V2Notification(
                name.type, name.subtype, notificationUUID: notificationUUID, signedDate: signedDate,
                content: .unclaimInfo(json: unclaimInfo(app)))
        }
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

    /// The members of the object. Apart from the ids of the seats, they are those of other objects of notifications.
    private func unclaimInfo(_ app: SimulatedApp) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("appAppleId", app.appAppleId)
            writer.member("bundleId", app.bundleId)
            writer.member("environment", app.environmentName)
            writer.key("unclaimSeatIds")
            writer.array(unclaimedSeats) { $0.value($1) }
        }
        return writer.bytes
    }
}
