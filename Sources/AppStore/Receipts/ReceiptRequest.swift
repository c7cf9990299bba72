import Encoding

/// The request of verifyReceipt.
package enum ReceiptRequest {
    /// The JSON to post. It contains the secret and a receipt, so it must not be logged.
    ///
    /// Old transactions are not excluded: the log keeps every period.
    ///
    /// - Parameter secret: The app's shared secret; nil if it has none, which Apple accepts only for apps without
    ///   auto-renewable subscriptions.
    package static func body(_ receipt: Receipt, secret: String?) -> [UInt8] {
        let text = receipt.base64
        var writer = JSONWriter(bytesExpected: text.utf8.count + 128)
        writer.object { writer in
            writer.member("receipt-data", text)
            writer.member("password", secret)
        }
        return writer.bytes
    }
}
