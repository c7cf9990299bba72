import AppStore
import Encoding
import Subscriptions
import Testing

/// The rules of Apple's Send Consumption Information: section 2.4 of the domain's page.
@Suite("The answer to Apple about a purchase for which a refund is requested")
struct ConsumptionRequestTests {
    private static let renewable = "Auto-Renewable Subscription"
    private static let token = "7e3fb20b-4cdb-47cc-936d-99d65f608138"

    private static func purchase(_ type: String?, isAdvancedCommerce: Bool = false) -> RefundRequest.Purchase {
        RefundRequest.Purchase(
            transactionId: "2000000000000007", originalTransactionId: "2000000000000001", productId: "coins",
            productType: type, appAccountToken: token, isAdvancedCommerce: isAdvancedCommerce)
    }

    private static func read(_ text: String) throws -> ConsumptionAnswer? {
        try ConsumptionAnswer.read(try JSONDocument(Array(text.utf8)).root)
    }

    private static func sent(
        _ text: String, type: String?, isAdvancedCommerce: Bool = false
    ) throws -> (path: String, body: String) {
        let content = try #require(try read(text))
        let request = try ConsumptionRequest(content, about: purchase(type, isAdvancedCommerce: isAdvancedCommerce))
        return (request.path, String(decoding: request.body ?? [], as: UTF8.self))
    }

    private static let plain = #"{"customerConsented":true,"sampleContentProvided":false,"deliveryStatus":"DELIVERED"}"#

    // MARK: - The bytes

    @Test("the bytes name the notification's transaction, and have Apple's names in their order")
    func bytes() throws {
        let (path, body) = try Self.sent(Self.plain, type: Self.renewable)

        #expect(path == "/inApps/v2/transactions/consumption/2000000000000007")
        #expect(body == Self.plain)
        #expect(try ConsumptionRequest(#require(try Self.read(Self.plain)), about: Self.purchase(nil)).method == "PUT")
    }

    @Test("a sample that was provided is said so")
    func sample() throws {
        let text = #"{"customerConsented":true,"sampleContentProvided":true,"deliveryStatus":"DELIVERED"}"#
        #expect(try Self.sent(text, type: "Consumable").body == text)
    }

    @Test(
        "each delivery status is sent as Apple spells it",
        arguments: [
            "DELIVERED", "UNDELIVERED_QUALITY_ISSUE", "UNDELIVERED_WRONG_ITEM", "UNDELIVERED_SERVER_OUTAGE",
            "UNDELIVERED_OTHER",
        ])
    func delivery(status: String) throws {
        let text = #"{"customerConsented":true,"sampleContentProvided":false,"deliveryStatus":"\#(status)"}"#
        #expect(try Self.sent(text, type: "Consumable").body == text)
    }

    @Test("a percentage is a number of thousandths of a percent", arguments: [0, 1, 50_000, 99_999, 100_000])
    func percentage(number: Int) throws {
        let text = """
            {"customerConsented":true,"sampleContentProvided":false,"deliveryStatus":"DELIVERED",\
            "consumptionPercentage":\(number)}
            """
        for type in ["Consumable", "Non-Consumable", "Non-Renewing Subscription"] {
            #expect(try Self.sent(text, type: type).body == text)
        }
    }

    @Test("each refund preference is sent as Apple spells it", arguments: ["DECLINE", "GRANT_FULL", "GRANT_PRORATED"])
    func preference(word: String) throws {
        let text = """
            {"customerConsented":true,"sampleContentProvided":false,"deliveryStatus":"DELIVERED",\
            "refundPreference":"\(word)"}
            """
        #expect(try Self.sent(text, type: Self.renewable).body == text)
    }

    @Test("null and an absent member are the same")
    func null() throws {
        let text = """
            {"customerConsented":true,"sampleContentProvided":false,"deliveryStatus":"DELIVERED",\
            "consumptionPercentage":null,"refundPreference":null}
            """
        #expect(try Self.sent(text, type: "Consumable").body == Self.plain)
    }

    // MARK: - What is not sent

    @Test("without consent there is nothing to send")
    func noConsent() throws {
        #expect(try Self.read(#"{"customerConsented":false}"#) == nil)
        #expect(try Self.read(#"{"customerConsented":false,"deliveryStatus":"DELIVERED"}"#) == nil)
    }

    @Test(
        "a member that is missing, wrong or unknown is named",
        arguments: [
            ("customerConsented", "{}"), ("customerConsented", #"{"customerConsented":"true"}"#),
            ("customerConsented", #"{"customerConsented":null}"#),
            ("sampleContentProvided", #"{"customerConsented":true,"deliveryStatus":"DELIVERED"}"#),
            (
                "sampleContentProvided",
                #"{"customerConsented":true,"sampleContentProvided":1,"deliveryStatus":"DELIVERED"}"#
            ),
            ("deliveryStatus", #"{"customerConsented":true,"sampleContentProvided":true}"#),
            ("deliveryStatus", #"{"customerConsented":true,"sampleContentProvided":true,"deliveryStatus":0}"#),
            ("deliveryStatus", #"{"customerConsented":true,"sampleContentProvided":true,"deliveryStatus":"LOST"}"#),
            ("consumptionPercentage", extended(#""consumptionPercentage":-1"#)),
            ("consumptionPercentage", extended(#""consumptionPercentage":100001"#)),
            ("consumptionPercentage", extended(#""consumptionPercentage":0.5"#)),
            ("consumptionPercentage", extended(#""consumptionPercentage":"50000""#)),
            ("consumptionPercentage", extended(#""consumptionPercentage":9223372036854775807"#)),
            ("refundPreference", extended(#""refundPreference":"MAYBE""#)),
            ("refundPreference", extended(#""refundPreference":2"#)),
            ("refundPreferense", extended(#""refundPreferense":"DECLINE""#)),
        ])
    func malformed(field: String, text: String) throws {
        let error = #expect(throws: ConsumptionAnswer.Malformed.self) { try Self.read(text) }
        #expect(error?.field == field)
        #expect(error?.description.contains("\n") == false)
    }

    private static func extended(_ member: String) -> String { plain.dropLast() + "," + member + "}" }

    @Test("a percentage is zero unless the purchase was delivered")
    func undelivered() throws {
        let text = #"{"customerConsented":true,"sampleContentProvided":false,"deliveryStatus":"UNDELIVERED_OTHER""#
        #expect(throws: ConsumptionAnswer.Malformed.self) { try Self.read(text + #","consumptionPercentage":1}"#) }
        let zero = text + #","consumptionPercentage":0}"#
        #expect(try Self.sent(zero, type: "Consumable").body == zero)
    }

    @Test("an auto-renewable subscription has no percentage, not even zero")
    func autoRenewable() throws {
        let text = Self.extended(#""consumptionPercentage":0"#)
        let error = #expect(throws: ConsumptionAnswer.Malformed.self) { try Self.sent(text, type: Self.renewable) }
        #expect(error?.field == "consumptionPercentage")
    }

    @Test(
        "a refund in part needs a percentage in between, except for an auto-renewable subscription",
        arguments: [nil, 0, 100_000] as [Int?])
    func prorated(percentage: Int?) throws {
        let member = percentage.map { #""consumptionPercentage":\#($0),"# } ?? ""
        let text = Self.extended(member + #""refundPreference":"GRANT_PRORATED""#)
        let error = #expect(throws: ConsumptionAnswer.Malformed.self) { try Self.sent(text, type: "Consumable") }
        #expect(error?.field == "refundPreference")
        let half = Self.extended(#""consumptionPercentage":50000,"refundPreference":"GRANT_PRORATED""#)
        #expect(try Self.sent(half, type: "Consumable").body == half)
    }

    @Test("a product whose type is unknown is left to Apple")
    func unknownType() throws {
        let text = Self.extended(#""consumptionPercentage":0,"refundPreference":"GRANT_PRORATED""#)
        for type in [nil, "Hologram"] { #expect(try Self.sent(text, type: type).body == text) }
    }

    // MARK: - Version 1

    @Test(
        "a purchase of the Advanced Commerce API takes version 1, with all of its members",
        arguments: [
            ("DELIVERED", "", 0, 0, ""), ("UNDELIVERED_QUALITY_ISSUE", #","consumptionPercentage":0"#, 1, 1, ""),
            ("UNDELIVERED_WRONG_ITEM", #","refundPreference":"GRANT_FULL""#, 0, 2, #","refundPreference":1"#),
            ("UNDELIVERED_SERVER_OUTAGE", #","refundPreference":"DECLINE""#, 0, 3, #","refundPreference":2"#),
            ("UNDELIVERED_OTHER", #","refundPreference":"GRANT_PRORATED""#, 0, 5, ""),
            ("DELIVERED", #","consumptionPercentage":99999"#, 2, 0, ""),
            ("DELIVERED", #","consumptionPercentage":100000"#, 3, 0, ""),
        ])
    func version1(status: String, more: String, consumption: Int, delivery: Int, preference: String) throws {
        let text =
            #"{"customerConsented":true,"sampleContentProvided":true,"deliveryStatus":"\#(status)"\#(more)}"#
        let (path, body) = try Self.sent(text, type: Self.renewable, isAdvancedCommerce: true)

        #expect(path == "/inApps/v1/transactions/consumption/2000000000000007")
        #expect(
            body == """
                {"accountTenure":0,"appAccountToken":"\(Self.token)","consumptionStatus":\(consumption),\
                "customerConsented":true,"deliveryStatus":\(delivery),"lifetimeDollarsPurchased":0,\
                "lifetimeDollarsRefunded":0,"platform":0,"playTime":0,"sampleContentProvided":true,\
                "userStatus":0\(preference)}
                """)
    }

    @Test("version 1 has an empty account token if the purchase has none")
    func noToken() throws {
        let purchase = RefundRequest.Purchase(
            transactionId: "7", originalTransactionId: "1", productId: nil, productType: nil, appAccountToken: nil,
            isAdvancedCommerce: true)
        let request = try ConsumptionRequest(#require(try Self.read(Self.plain)), about: purchase)
        #expect(String(decoding: request.body ?? [], as: UTF8.self).contains(#""appAccountToken":"""#))
    }

    @Test("an answer without a body is readable")
    func answer() throws {
        let request = try ConsumptionRequest(#require(try Self.read(Self.plain)), about: Self.purchase(nil))
        try request.answer(decoding: [])
    }
}
