import Encoding
import Subscriptions

/// Send Consumption Information: what the developer says about a purchase for which its customer requested a refund.
///
/// Version 2 of the request, or version 1 for a purchase of the Advanced Commerce API, which version 2 refuses.
///
/// - Source: Apple, "Send Consumption Information" and "Send Consumption Information V1".
package struct ConsumptionRequest: ServerAPIRequest {
    private let purchase: RefundRequest.Purchase
    private let content: ConsumptionAnswer

    /// - Throws: ``ConsumptionAnswer/Malformed`` if Apple would refuse the answer for the purchase.
    package init(
        _ content: ConsumptionAnswer, about purchase: RefundRequest.Purchase
    ) throws(ConsumptionAnswer.Malformed) {
        // Version 1 has no percentage, so no rule depends on the type.
        if !purchase.isAdvancedCommerce, let problem = content.problem(of: purchase.productType) { throw problem }
        self.purchase = purchase
        self.content = content
    }

    package var endpoint: ServerAPIEndpoint { .consumption }
    package var method: String { "PUT" }

    package var path: String {
        let version = purchase.isAdvancedCommerce ? 1 : 2
        return "/inApps/v\(version)/transactions/consumption/\(PercentEncoding.encoded(purchase.transactionId))"
    }

    package var body: [UInt8]? {
        var writer = JSONWriter()
        writer.object { writer in
            if purchase.isAdvancedCommerce {
                content.writeMembersV1(purchase.appAccountToken, to: &writer)
            } else {
                content.writeMembers(to: &writer)
            }
        }
        return writer.bytes
    }

    /// Apple answers 202 without a body.
    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) {}
}

extension ConsumptionAnswer {
    /// The members of version 1, which are all required but the last. What this answer does not state is undeclared.
    fileprivate func writeMembersV1(_ appAccountToken: String?, to writer: inout JSONWriter) {
        let undeclared = 0
        writer.member("accountTenure", undeclared)
        writer.member("appAccountToken", appAccountToken ?? "")
        writer.member("consumptionStatus", consumptionStatusV1 ?? undeclared)
        writer.member("customerConsented", true)
        writer.member("deliveryStatus", deliveryStatusV1)
        writer.member("lifetimeDollarsPurchased", undeclared)
        writer.member("lifetimeDollarsRefunded", undeclared)
        writer.member("platform", undeclared)
        writer.member("playTime", undeclared)
        writer.member("sampleContentProvided", isSampleProvided)
        writer.member("userStatus", undeclared)
        writer.member("refundPreference", refundPreferenceV1)
    }

    /// 1 not, 2 partly, 3 fully consumed.
    private var consumptionStatusV1: Int? {
        percentage.map { $0 == 0 ? 1 : $0 < Self.wholePercentage ? 2 : 3 }
    }

    private var deliveryStatusV1: Int {
        switch delivery {
        case .delivered: 0
        case .qualityIssue: 1
        case .wrongItem: 2
        case .serverOutage: 3
        case .other: 5
        }
    }

    /// Version 1 has no word for a refund in part.
    private var refundPreferenceV1: Int? {
        switch preference {
        case .grantFull: 1
        case .decline: 2
        case .grantProrated, nil: nil
        }
    }
}
