extension ReceiptChecks {
    /// The checks of a receipt that was checked before.
    ///
    /// - Parameters:
    ///   - status: Apple's last status.
    ///   - refusal: The label of the ``ReceiptRefusal``; nil if the receipt was accepted.
    package init(stored status: ReceiptStatus, refusal: String?, registration: Registration?, isInForce: Bool?) {
        self.status = status
        // Whether a status confirms a receipt does not depend on the host.
        isGenuine = status.action(from: .production, isRetryable: nil) == .accept
        isOfThisApp = Self.isOfThisApp(refusal)
        self.registration = registration
        self.isInForce = isInForce
    }

    private static func isOfThisApp(_ refusal: String?) -> Bool? {
        guard let refusal else { return true }
        let ofOthers: [ReceiptRefusal] = [.otherApp, .appMissing]
        if ofOthers.contains(where: { $0.label == refusal }) { return false }
        let ofThis: [ReceiptRefusal] = [.wrongEnvironment, .environmentRefused(.unknown)]
        return ofThis.contains { $0.label == refusal } ? true : nil
    }
}
