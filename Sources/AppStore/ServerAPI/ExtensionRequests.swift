import Encoding
import Subscriptions

/// Extend a Subscription Renewal Date: gives an active subscription free days at the end of its period.
///
/// Apple makes the extension once, however often the same `requestIdentifier` is sent.
package struct ExtendRequest: ServerAPIRequest {
    package let originalTransactionId: String
    package let terms: StoreWrite.ExtensionTerms
    /// Up to ``identifierCharactersMax`` characters.
    package let requestIdentifier: String

    /// - Source: Apple, "requestIdentifier".
    package static let identifierCharactersMax = 128

    package init(originalTransactionId: String, terms: StoreWrite.ExtensionTerms, requestIdentifier: String) {
        self.originalTransactionId = originalTransactionId
        self.terms = terms
        self.requestIdentifier = requestIdentifier
    }

    package var endpoint: ServerAPIEndpoint { .extend }
    package var method: String { "PUT" }
    package var path: String { "/inApps/v1/subscriptions/extend/\(PercentEncoding.encoded(originalTransactionId))" }

    package var body: [UInt8]? {
        var writer = JSONWriter()
        writer.object { terms.writeRequest(requestIdentifier, to: &$0) }
        return writer.bytes
    }

    package struct Answer: Sendable, Hashable {
        package let isExtended: Bool
        /// The new end of the period; nil if it was not extended.
        package let effectiveDate: Instant?
        package let webOrderLineItemId: String?
    }

    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> Answer {
        let answer = try ServerAnswer(body)
        guard let isExtended = answer.root["success"]?.bool else { throw .missing("success") }
        return Answer(
            isExtended: isExtended,
            effectiveDate: answer.root["effectiveDate"]?.int64.flatMap { Instant(milliseconds: $0) },
            webOrderLineItemId: answer.root["webOrderLineItemId"]?.string)
    }
}

/// Extend Subscription Renewal Dates for All Active Subscribers: lets Apple extend all active subscriptions of a product,
/// which takes hours or days.
package struct ExtendAllRequest: ServerAPIRequest {
    package let productId: String
    /// ISO 3166-1 alpha-3; empty for all storefronts.
    package let storefronts: [String]
    package let terms: StoreWrite.ExtensionTerms
    /// A UUID.
    package let requestIdentifier: String

    package init(
        productId: String, storefronts: [String], terms: StoreWrite.ExtensionTerms, requestIdentifier: String
    ) {
        self.productId = productId
        self.storefronts = storefronts
        self.terms = terms
        self.requestIdentifier = requestIdentifier
    }

    package var endpoint: ServerAPIEndpoint { .extendAll }
    package var method: String { "POST" }
    package var path: String { "/inApps/v1/subscriptions/extend/mass" }

    package var body: [UInt8]? {
        var writer = JSONWriter()
        writer.object { writer in
            terms.writeRequest(requestIdentifier, to: &writer)
            writer.member("productId", productId)
            // Apple refuses an empty list.
            guard !storefronts.isEmpty else { return }
            writer.key("storefrontCountryCodes")
            writer.array(storefronts) { $0.value($1) }
        }
        return writer.bytes
    }

    /// - Returns: The `requestIdentifier`.
    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> String {
        guard let identifier = try ServerAnswer(body).root["requestIdentifier"]?.string else {
            throw .missing("requestIdentifier")
        }
        return identifier
    }
}

/// Get Status of Subscription Renewal Date Extensions: how far Apple is with the extension of all subscriptions.
package struct ExtendAllStatusRequest: ServerAPIRequest {
    package let productId: String
    package let requestIdentifier: String

    package init(productId: String, requestIdentifier: String) {
        self.productId = productId
        self.requestIdentifier = requestIdentifier
    }

    package var endpoint: ServerAPIEndpoint { .extendAllStatus }

    package var path: String {
        "/inApps/v1/subscriptions/extend/mass/\(PercentEncoding.encoded(productId))/\(PercentEncoding.encoded(requestIdentifier))"
    }

    package struct Answer: Sendable, Hashable {
        package let isComplete: Bool
        /// Nil until the extension is complete, as well as the counts.
        package let completeDate: Instant?
        package let succeeded: Int64?
        package let failed: Int64?
    }

    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> Answer {
        let root = try ServerAnswer(body).root
        guard let isComplete = root["complete"]?.bool else { throw .missing("complete") }
        return Answer(
            isComplete: isComplete, completeDate: root["completeDate"]?.int64.flatMap { Instant(milliseconds: $0) },
            succeeded: root["succeededCount"]?.int64, failed: root["failedCount"]?.int64)
    }
}

extension StoreWrite.ExtensionTerms {
    fileprivate func writeRequest(_ requestIdentifier: String, to writer: inout JSONWriter) {
        writer.member("extendByDays", days)
        // Always: without it, Apple answers with an internal error.
        writer.member("extendReasonCode", reason.code)
        writer.member("requestIdentifier", requestIdentifier)
    }
}
