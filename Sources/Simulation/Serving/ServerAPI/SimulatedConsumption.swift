import Encoding
import Foundation

/// What the app's server said about the consumption of a purchase, in a valid request.
package struct SimulatedConsumption: Sendable, Hashable {
    package let transactionId: String
    /// The version of the endpoint, 1 or 2.
    package let version: Int
    /// The request's bytes.
    package let body: [UInt8]
    package let receivedAt: Instant
    /// When the store signed its last question about the purchase; nil if it asked none.
    package let requestedAt: Instant?

    private static let deadline = Duration.seconds(12 * 3600)

    /// Whether the answer came within twelve hours of the question. False without a question.
    package var isInTime: Bool { requestedAt.map { receivedAt <= $0.advanced(by: Self.deadline) } ?? false }

    /// `{"transactionId":…,"version":…,"body":{…},"receivedAt":…,"requestedAt":…,"isInTime":…}`
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("transactionId", transactionId)
            writer.member("version", version)
            writer.key("body")
            writer.value(rawJSON: body)
            writer.member("receivedAt", receivedAt)
            writer.member("requestedAt", requestedAt)
            writer.member("isInTime", isInTime)
        }
    }
}

extension SimulatedServerAPI {
    func consumption(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        let (subscription, purchase) = try purchase(request)
        guard let body = request.call.json else { throw .request }
        try ConsumptionRules.check(body, of: purchase.product.kind)
        return record(2, request, subscription)
    }

    func consumptionV1(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        let (subscription, _) = try purchase(request)
        guard let body = request.call.json else { throw .request }
        try ConsumptionRules.checkV1(body)
        return record(1, request, subscription)
    }

    private func purchase(
        _ request: StoreAPIRequest
    ) throws(StoreAPIError) -> (SimulatedSubscription, Purchase) {
        guard let subscription = try find(request).subscription else { throw .accountTransactionId }
        guard !subscription.customer.isFamilyMember else { throw .familyShared }
        let purchases = subscription.books(at: request.now)?.purchases ?? []
        guard let purchase = purchases.first(where: { $0.transactionId == request.id }) else {
            throw .transactionNotFound
        }
        return (subscription, purchase)
    }

    private func record(
        _ version: Int, _ request: StoreAPIRequest, _ subscription: SimulatedSubscription
    ) -> StoreAPIAnswer {
        let question = subscription.notifications.last {
            $0.version2?.type == "CONSUMPTION_REQUEST" && $0.subject.transactionId == request.id
                && $0.signedDate <= request.now
        }
        let consumption = SimulatedConsumption(
            transactionId: request.id, version: version, body: request.call.body, receivedAt: request.now,
            requestedAt: question?.signedDate)
        state.withLock { $0.consumptions.append(consumption) }
        return StoreAPIAnswer(status: 202)
    }
}

/// The rules for the bodies of both versions.
private enum ConsumptionRules {
    private static func error(_ code: Int, _ field: String) -> StoreAPIError {
        StoreAPIError(code, "Invalid \(field).")
    }

    /// Apple does not publish the numbers of these errors.
    private static let percentageRange = error(4_009_998, "consumption percentage: out of range")
    private static let percentageUndelivered = error(4_009_999, "consumption percentage: not delivered, not zero")

    private static let deliveryStatuses = [
        "DELIVERED", "UNDELIVERED_QUALITY_ISSUE", "UNDELIVERED_WRONG_ITEM", "UNDELIVERED_SERVER_OUTAGE",
        "UNDELIVERED_OTHER",
    ]
    private static let wholePercentage: Int64 = 100_000

    static func check(_ body: JSONValue, of kind: Product.Kind) throws(StoreAPIError) {
        guard body.bool("customerConsented") == true else { throw error(4_000_035, "customer consented") }
        guard body.bool("sampleContentProvided") != nil else { throw error(4_000_041, "sample content provided") }
        guard let delivery = body.string("deliveryStatus"), deliveryStatuses.contains(delivery) else {
            throw error(4_000_036, "delivery status")
        }
        var percentage: Int64?
        if let value = body["consumptionPercentage"], !value.isNull {
            guard kind != .autoRenewable else { throw error(4_000_209, "consumption percentage: auto-renewable") }
            guard let number = value.int64, (0...wholePercentage).contains(number) else { throw percentageRange }
            guard number == 0 || delivery == "DELIVERED" else { throw percentageUndelivered }
            percentage = number
        }
        guard let preference = body["refundPreference"], !preference.isNull else { return }
        switch preference.string {
        case "DECLINE", "GRANT_FULL": return
        case "GRANT_PRORATED":
            let isPart = percentage.map { 0 < $0 && $0 < wholePercentage } ?? false
            guard isPart || kind == .autoRenewable else { throw error(4_000_044, "refund preference") }
        default: throw error(4_000_044, "refund preference")
        }
    }

    static func checkV1(_ body: JSONValue) throws(StoreAPIError) {
        guard body.bool("customerConsented") == true else { throw error(4_000_035, "customer consented") }
        guard body.bool("sampleContentProvided") != nil else { throw error(4_000_041, "sample content provided") }
        guard let token = body.string("appAccountToken"), token.isEmpty || UUID(uuidString: token) != nil else {
            throw error(4_000_033, "app account token")
        }
        let fields: [(code: Int, name: String, value: Int64?, last: Int64)] = [
            (4_000_032, "account tenure", body["accountTenure"]?.int64, 7),
            (4_000_034, "consumption status", body["consumptionStatus"]?.int64, 3),
            (4_000_036, "delivery status", body["deliveryStatus"]?.int64, 5),
            (4_000_037, "lifetime dollars purchased", body["lifetimeDollarsPurchased"]?.int64, 7),
            (4_000_038, "lifetime dollars refunded", body["lifetimeDollarsRefunded"]?.int64, 7),
            (4_000_039, "platform", body["platform"]?.int64, 2),
            (4_000_040, "play time", body["playTime"]?.int64, 7),
            (4_000_042, "user status", body["userStatus"]?.int64, 4),
        ]
        for field in fields {
            guard let value = field.value, (0...field.last).contains(value) else {
                throw error(field.code, field.name)
            }
        }
        // The only field that may be missing.
        guard let preference = body["refundPreference"], !preference.isNull else { return }
        guard let value = preference.int64, (0...3).contains(value) else { throw error(4_000_044, "refund preference") }
    }
}
