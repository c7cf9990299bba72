import Encoding
import Subscriptions
import Testing

@testable import AppStore

@Suite("Requests that change something at the App Store")
struct WriteRequestTests {
    private static let terms = StoreWrite.ExtensionTerms(days: 7, reason: .outage)

    private static func text(_ body: [UInt8]?) -> String { String(decoding: body ?? [], as: UTF8.self) }

    @Test("the extension of one subscription is a PUT with the days, the reason and the identifier")
    func extend() {
        let request = ExtendRequest(
            originalTransactionId: "2000000123456789", terms: Self.terms, requestIdentifier: "outage \"1\"")

        #expect(request.method == "PUT" && request.path == "/inApps/v1/subscriptions/extend/2000000123456789")
        #expect(
            Self.text(request.body)
                == #"{"extendByDays":7,"extendReasonCode":3,"requestIdentifier":"outage \"1\""}"#)
        #expect(request.isRepeatable)
    }

    @Test(
        "the reason is always sent, as Apple's number",
        arguments: [
            (StoreWrite.ExtensionReason.undeclared, 0), (.satisfaction, 1), (.other, 2), (.outage, 3),
        ])
    func reason(reason: StoreWrite.ExtensionReason, code: Int) {
        let request = ExtendRequest(
            originalTransactionId: "1", terms: .init(days: 90, reason: reason), requestIdentifier: "a")

        #expect(
            Self.text(request.body) == #"{"extendByDays":90,"extendReasonCode":\#(code),"requestIdentifier":"a"}"#)
    }

    @Test("the extension of all subscriptions names the product, and storefronts only if there are some")
    func extendAll() {
        func request(_ storefronts: [String]) -> ExtendAllRequest {
            ExtendAllRequest(
                productId: "com.example.monthly", storefronts: storefronts, terms: Self.terms,
                requestIdentifier: "0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31")
        }
        let common =
            #"{"extendByDays":7,"extendReasonCode":3,"requestIdentifier":"0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31","#

        #expect(request([]).method == "POST" && request([]).path == "/inApps/v1/subscriptions/extend/mass")
        #expect(Self.text(request([]).body) == common + #""productId":"com.example.monthly"}"#)
        #expect(
            Self.text(request(["USA", "DEU"]).body)
                == common + #""productId":"com.example.monthly","storefrontCountryCodes":["USA","DEU"]}"#)
    }

    @Test("the status of an extension is asked for by product first, then by identifier")
    func status() {
        let request = ExtendAllStatusRequest(productId: "a b", requestIdentifier: "c/d")

        #expect(request.method == "GET" && request.body == nil)
        #expect(request.path == "/inApps/v1/subscriptions/extend/mass/a%20b/c%2Fd")
    }

    @Test("an account token is a PUT with the token alone")
    func accountToken() {
        let request = AccountTokenRequest(
            originalTransactionId: "1", appAccountToken: "0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31")

        #expect(request.method == "PUT" && request.path == "/inApps/v1/transactions/1/appAccountToken")
        #expect(Self.text(request.body) == #"{"appAccountToken":"0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31"}"#)
        #expect(throws: Never.self) { try request.answer(decoding: []) }
    }

    @Test("answers have what they must have, or are unreadable")
    func answers() throws {
        let extend = ExtendRequest(originalTransactionId: "1", terms: Self.terms, requestIdentifier: "a")
        let all = ExtendAllRequest(productId: "a", storefronts: [], terms: Self.terms, requestIdentifier: "b")
        let status = ExtendAllStatusRequest(productId: "a", requestIdentifier: "b")
        let extended = Array(
            #"{"originalTransactionId":"1","webOrderLineItemId":"7","success":true,"effectiveDate":1793491200000}"#
                .utf8)
        let complete = Array(
            #"{"complete":true,"completeDate":1793491200000,"succeededCount":30000000000,"failedCount":2}"#.utf8)

        #expect(
            try extend.answer(decoding: extended)
                == .init(
                    isExtended: true, effectiveDate: Instant(iso8601: "2026-11-01T00:00:00Z"), webOrderLineItemId: "7"))
        #expect(
            try extend.answer(decoding: Array(#"{"success":false}"#.utf8))
                == .init(isExtended: false, effectiveDate: nil, webOrderLineItemId: nil))
        #expect(
            try status.answer(decoding: complete)
                == .init(
                    isComplete: true, completeDate: Instant(iso8601: "2026-11-01T00:00:00Z"),
                    succeeded: 30_000_000_000, failed: 2))
        #expect(try all.answer(decoding: Array(#"{"requestIdentifier":"b"}"#.utf8)) == "b")
        for text in ["", "{", "[]", "{}", #"{"success":"yes","complete":"no","requestIdentifier":7}"#] {
            #expect(throws: UnreadableJSON.self) { try extend.answer(decoding: Array(text.utf8)) }
            #expect(throws: UnreadableJSON.self) { try all.answer(decoding: Array(text.utf8)) }
            #expect(throws: UnreadableJSON.self) { try status.answer(decoding: Array(text.utf8)) }
        }
    }

    @Test(
        "each error of a change is one line that says what Apple does not accept",
        arguments: [
            (4_000_006, "the transaction id is not valid"),
            (4_000_008, "the original transaction id is not valid"),
            (4_000_009, "the number of days is not valid: expected 1 to 90"),
            (4_000_010, "the reason code is not valid: expected 0 to 3"),
            (4_000_011, "the request identifier is not valid"),
            (4_000_023, "the product id is not valid"),
            (4_000_027, "the list of storefronts is empty"),
            (4_000_028, "a storefront is not valid: expected three-letter country codes"),
            (4_000_048, "the id is one of an Apple Account: expected an original transaction id"),
            (4_000_183, "the account token is not valid: expected a UUID"),
            (4_000_185, "the purchase is shared by a family member: expected that of the purchaser"),
            (4_000_187, "the id is not an original transaction id"),
            (4_000_227, "the purchase is assigned to the user by an organization"),
            (4_030_004, "the subscription is in a state that cannot be extended: expected an active one"),
            (4_030_005, "the subscription was extended twice in the last 365 days"),
            (4_030_007, "the subscription is shared by a family member: expected that of the purchaser"),
            (4_030_028, "the subscription is assigned to the user by an organization"),
            (4_040_005, "the App Store does not know the original transaction id"),
            (4_040_009, "the App Store knows no extension of the product with this request identifier"),
        ])
    func errors(code: Int64, cause: String) {
        let body = Array(#"{"errorCode":\#(code),"errorMessage":"A message of Apple."}"#.utf8)

        let refusal = ServerAPIRefusal(httpStatus: Int(code / 10_000), body: body)

        #expect(refusal.kind == .final)
        #expect("\(refusal)" == "the App Store refuses the request: \(cause) (error \(code))")
    }

    @Test(
        "half of Apple's limits is used",
        arguments: [
            (ServerAPIEndpoint.extend, 600), (.accountToken, 600), (.extendAll, 30), (.extendAllStatus, 30),
        ])
    func budgets(endpoint: ServerAPIEndpoint, callsPerMinute: Int) {
        #expect(endpoint.budget(.production).callsPerMinute == callsPerMinute)
        #expect(endpoint.budget(.sandbox).callsPerMinute == callsPerMinute / 10)
    }
}
