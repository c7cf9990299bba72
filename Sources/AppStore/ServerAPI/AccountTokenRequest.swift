import Encoding

/// Set App Account Token: ties a purchase to a user of the app. For a subscription, the current transaction and later ones
/// have the token from then on.
package struct AccountTokenRequest: ServerAPIRequest {
    package let originalTransactionId: String
    /// A UUID.
    package let appAccountToken: String

    package init(originalTransactionId: String, appAccountToken: String) {
        self.originalTransactionId = originalTransactionId
        self.appAccountToken = appAccountToken
    }

    package var endpoint: ServerAPIEndpoint { .accountToken }
    package var method: String { "PUT" }
    package var path: String {
        "/inApps/v1/transactions/\(PercentEncoding.encoded(originalTransactionId))/appAccountToken"
    }

    package var body: [UInt8]? {
        var writer = JSONWriter()
        writer.object { $0.member("appAccountToken", appAccountToken) }
        return writer.bytes
    }

    /// The answer has no content.
    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) {}
}
