import Encoding

extension Receipt {
    /// The latest receipt in the body of an event; nil if it has none.
    ///
    /// V1 notifications have an app receipt in `unified_receipt`; old ones have a transaction receipt instead, under
    /// another key once the subscription has expired. Answers of verifyReceipt have `latest_receipt`.
    ///
    /// - Parameter body: A body as the log stores it.
    package init?(latestIn body: [UInt8]) {
        guard let root = (try? JSONDocument(body))?.root else { return nil }
        let candidates = [
            root["unified_receipt"]?["latest_receipt"], root["latest_receipt"], root["latest_expired_receipt"],
        ]
        for case let text? in candidates.map({ $0?.string }) {
            guard let receipt = try? Receipt(base64: text) else { continue }
            self = receipt
            return
        }
        return nil
    }
}
