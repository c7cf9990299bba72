import Encoding

extension StoreNotification {
    /// The body of version 1, a snapshot of the Apple Account; nil if version 1 does not send the notification.
    ///
    /// - Parameters:
    ///   - companions: The other subscriptions and one-time purchases of the same Apple Account.
    ///   - latestReceipt: The receipt of the Apple Account; nil omits it.
    package func version1Body(
        app: SimulatedApp, customer: Customer, companions: [SimulatedSubscription] = [],
        latestReceipt: [UInt8]? = nil
    ) -> [UInt8]? {
        guard let type = version1 else { return nil }
        let isProduction = app.environment == .production
        let unified = V1Receipt(self, customer, companions: companions)
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("notification_type", type)
            writer.member("environment", isProduction ? "PROD" : "Sandbox")
            writer.member("password", app.sharedSecret)
            writer.member("bid", app.bundleId)
            writer.member("bvrs", app.bundleVersion)
            writeRenewal(to: &writer)
            if type == "REFUND" { writeRefund(to: &writer) }
            if type == "REVOKE" { writer.member("original_transaction_id", purchases.first?.transactionId) }
            writer.key("unified_receipt")
            writer.object { writer in
                writer.member("status", 0)
                writer.member("environment", app.environmentName)
                writer.member("latest_receipt", latestReceipt.map(Base64.text))
                writer.key("latest_receipt_info")
                unified.writeRows(to: &writer)
                writer.key("pending_renewal_info")
                unified.writePending(to: &writer)
            }
            writer.member("deprecation", "2023-06-05")
        }
        return writer.bytes
    }

    /// Writes the top-level members about a refunded purchase, which the receipt may omit.
    private func writeRefund(to writer: inout JSONWriter) {
        guard let revocation = subject.revocation else { return }
        writer.member("original_transaction_id", subject.transactionId)
        writer.member("product_id", subject.product.id)
        writer.member("cancellation_date", V1Date.gmt(revocation.date))
        writer.member("cancellation_date_ms", String(revocation.date.milliseconds))
        writer.member("cancellation_date_pst", V1Date.pacific(revocation.date))
        writer.member("cancellation_reason", String(revocation.reason))
    }

    /// Writes the top-level members about the next renewal.
    private func writeRenewal(to writer: inout JSONWriter) {
        guard let renewalPreference else { return }
        writer.member("auto_renew_product_id", renewalPreference.nextProduct.id)
        writer.member("auto_renew_adam_id", "1500000000")
        writer.member("auto_renew_status", renewalPreference.isOn ? "true" : "false")
        if let date = renewalPreference.switchedAt {
            writer.member("auto_renew_status_change_date", V1Date.gmt(date))
            writer.member("auto_renew_status_change_date_ms", String(date.milliseconds))
            writer.member("auto_renew_status_change_date_pst", V1Date.pacific(date))
        }
        writer.member("expiration_intent", renewalPreference.expiration?.rawValue)
    }
}
