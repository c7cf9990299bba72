import AppStore
import Encoding
import Subscriptions
import Testing

/// Every documented field and its property.
@Suite("Fields of signed notifications")
struct V2FieldTests {
    private static let date = "2024-06-01"

    static let transaction: JSON = [
        "transactionId": "2000000000000002", "originalTransactionId": .text(testSubscription),
        "webOrderLineItemId": "92000000000000002", "bundleId": .text(testBundle), "productId": .text(monthly),
        "subscriptionGroupIdentifier": "20000001", "purchaseDate": ms("2024-05-01"),
        "originalPurchaseDate": ms("2018-02-20"), "expiresDate": ms("2024-06-01"), "quantity": 3,
        "type": "Auto-Renewable Subscription", "appAccountToken": "7E3FB20B-4CDB-47CC-936D-99D65F608138",
        "inAppOwnershipType": "PURCHASED", "signedDate": ms("2024-05-31"), "revocationDate": ms("2024-05-20"),
        "revocationReason": 1, "revocationType": "REFUND_PRORATED", "revocationPercentage": 50000, "isUpgraded": true,
        "offerType": 4, "offerIdentifier": "winback.2024", "offerDiscountType": "PAY_AS_YOU_GO", "offerPeriod": "P1M",
        "environment": "Production", "storefront": "JPN", "storefrontId": "143462", "transactionReason": "RENEWAL",
        "price": 9_000_000_000_480, "currency": "JPY", "appTransactionId": "704000000000000001",
        "previousOriginalTransactionId": "1999999999999999", "billingPlanType": "MONTHLY",
        "commitmentInfo": [
            "billingPeriodNumber": 2, "totalBillingPeriods": 12, "commitmentExpiresDate": ms("2025-05-01"),
            "commitmentPrice": 5_760_000,
        ],
        "advancedCommerceInfo": [
            "descriptors": ["description": "all issues", "displayName": "All"], "estimatedTax": 100,
            "items": [
                [
                    "SKU": "issue-1", "description": "one issue", "displayName": "One", "price": 4_294_967_296,
                    "offer": ["type": "FREE"], "revocationDate": ms("2024-05-21"),
                    "refunds": [
                        [
                            "refundAmount": 7, "refundDate": ms("2024-05-22"), "refundReason": "LEGAL",
                            "refundType": "FULL",
                        ]
                    ],
                ]
            ],
            "period": "P1M", "requestReferenceId": "2b8e6bcc-3b7e-4b0a-8b7e-3b7e4b0a8b7e", "taxCode": "C003-00-1",
            "taxExclusivePrice": 380_000, "taxRate": "0.10",
        ],
    ]

    static let renewal: JSON = [
        "originalTransactionId": .text(testSubscription), "productId": .text(monthly),
        "autoRenewProductId": .text(premium),
        "autoRenewStatus": 1, "expirationIntent": 2, "isInBillingRetryPeriod": true,
        "gracePeriodExpiresDate": ms("2024-06-17"), "priceIncreaseStatus": 0, "offerType": 2,
        "offerIdentifier": "next.offer", "offerDiscountType": "FREE_TRIAL", "offerPeriod": "P7D",
        "recentSubscriptionStartDate": ms("2018-02-20"), "renewalDate": ms("2024-06-02"), "currency": "EUR",
        "renewalPrice": 3_000_000_000, "eligibleWinBackOfferIds": ["a", "b"],
        "appAccountToken": "7E3FB20B-4CDB-47CC-936D-99D65F608139", "appTransactionId": "704000000000000002",
        "signedDate": ms("2024-05-30"), "environment": "Production", "renewalBillingPlanType": "BILLED_UPFRONT",
        "commitmentInfo": [
            "commitmentAutoRenewProductId": .text(premium), "commitmentAutoRenewStatus": 1,
            "commitmentRenewalBillingPlanType": "MONTHLY", "commitmentRenewalDate": ms("2025-05-02"),
            "commitmentRenewalPrice": 5_760_001,
        ],
        "advancedCommerceInfo": [
            "consistencyToken": "opaque", "descriptors": ["description": "next", "displayName": "Next"],
            "items": [
                [
                    "SKU": "issue-2", "description": "two", "displayName": "Two", "offer": ["type": "FREE"],
                    "price": 11,
                    "priceIncreaseInfo": ["dependentSKUs": ["issue-1"], "price": 12, "status": "SCHEDULED"],
                ]
            ],
            "period": "P1Y", "requestReferenceId": "3b8e6bcc-3b7e-4b0a-8b7e-3b7e4b0a8b7e", "taxCode": "C003-00-2",
        ],
    ]

    static let body = V2Body(
        "DID_RENEW", "BILLING_RECOVERY", at: date, transaction, renewal,
        data: ["status": 1, "consumptionRequestReason": "LEGAL"])

    @Test("every field of a transaction is decoded into its property")
    func transactionProperties() throws {
        let read = try #require(try Self.body.event().transactions.first)

        #expect(read.transactionId == "2000000000000002")
        #expect(read.originalTransactionId == testSubscription)
        #expect(read.webOrderLineItemId == "92000000000000002")
        #expect(read.productId == monthly)
        #expect(read.subscriptionGroupIdentifier == "20000001")
        #expect(read.purchaseDate == day("2024-05-01"))
        #expect(read.originalPurchaseDate == day("2018-02-20"))
        #expect(read.expiresDate == day("2024-06-01"))
        #expect(read.quantity == 3)
        #expect(read.type == "Auto-Renewable Subscription")
        #expect(read.appAccountToken == "7e3fb20b-4cdb-47cc-936d-99d65f608138")
        #expect(read.inAppOwnershipType == "PURCHASED")
        #expect(read.signedDate == day("2024-05-31"))
        #expect(read.revocationDate == day("2024-05-20"))
        #expect(read.revocationReason == 1)
        #expect(read.revocationType == "REFUND_PRORATED")
        #expect(read.revocationPercentage == 50000)
        #expect(read.isUpgraded)
        #expect(read.offerType == 4)
        #expect(read.offerIdentifier == "winback.2024")
        #expect(read.offerDiscountType == "PAY_AS_YOU_GO")
        #expect(read.offerPeriod == "P1M")
        #expect(read.storefront == "JPN")
        #expect(read.storefrontId == "143462")
        #expect(read.transactionReason == "RENEWAL")
        #expect(read.price == 9_000_000_000_480)
        #expect(read.currency == "JPY")
        #expect(read.appTransactionId == "704000000000000001")
        #expect(read.previousOriginalTransactionId == "1999999999999999")
        #expect(read.billingPlanType == "MONTHLY")
    }

    @Test("every field of renewal info is decoded into its property")
    func renewalProperties() throws {
        let read = try #require(try Self.body.event().renewals.first)

        #expect(read.originalTransactionId == testSubscription)
        #expect(read.productId == monthly)
        #expect(read.autoRenewProductId == premium)
        #expect(read.autoRenewStatus == true)
        #expect(read.expirationIntent == 2)
        #expect(read.isInBillingRetryPeriod == true)
        #expect(read.gracePeriodExpiresDate == day("2024-06-17"))
        #expect(read.priceIncreaseStatus == 0)
        #expect(read.offerType == 2)
        #expect(read.offerIdentifier == "next.offer")
        #expect(read.offerDiscountType == "FREE_TRIAL")
        #expect(read.offerPeriod == "P7D")
        #expect(read.recentSubscriptionStartDate == day("2018-02-20"))
        #expect(read.renewalDate == day("2024-06-02"))
        #expect(read.currency == "EUR")
        #expect(read.renewalPrice == 3_000_000_000)
        #expect(read.eligibleWinBackOfferIds == ["a", "b"])
        #expect(read.appAccountToken == "7e3fb20b-4cdb-47cc-936d-99d65f608139")
        #expect(read.appTransactionId == "704000000000000002")
        #expect(read.signedDate == day("2024-05-30"))
        #expect(read.renewalBillingPlanType == "BILLED_UPFRONT")
    }

    @Test("a complete notification has no defects and no unknown fields")
    func complete() throws {
        let event = try Self.body.event()

        #expect(event.defects == [])
        #expect(event.unknownFields == [])
    }

    @Test("fields without a property are kept as sent")
    func kept() throws {
        let event = try Self.body.event()

        for part in [Self.transaction, Self.renewal] {
            for key in ["commitmentInfo", "advancedCommerceInfo"] {
                #expect(try written(key, of: event).contains(try canonical(try #require(part[key]))), "\(key)")
            }
        }
        #expect(try written("bundleVersion", of: event) == ["\"42\""])
        #expect(Set(try written("status", of: event)) == ["1", "\"SCHEDULED\""])
        #expect(try written("consumptionRequestReason", of: event) == ["\"LEGAL\""])
        #expect(try written("version", of: event) == ["\"2.0\""])
        #expect(try written("appAppleId", of: event) == [String(testAppleId)])
    }

    @Test("the fields of a summary are kept", arguments: [V2TypeRow.summary])
    func summary(subject: JSON) throws {
        let event = try V2Body("RENEWAL_EXTENSION", "SUMMARY", at: Self.date, about: "summary", subject).event()

        for key in [
            "requestIdentifier", "appAppleId", "productId", "storefrontCountryCodes", "succeededCount", "failedCount",
        ] {
            #expect(try written(key, of: event) == [try canonical(try #require(subject[key]))], "\(key)")
        }
    }

    @Test("the fields of an external purchase token are kept", arguments: [V2TypeRow.token])
    func token(subject: JSON) throws {
        let event = try V2Body(
            "EXTERNAL_PURCHASE_TOKEN", "CREATED", at: Self.date, about: "externalPurchaseToken", subject
        ).event()

        for key in ["externalPurchaseId", "tokenCreationDate", "appAppleId", "tokenExpirationDate", "tokenType"] {
            #expect(try written(key, of: event) == [try canonical(try #require(subject[key]))], "\(key)")
        }
    }

    @Test("the fields of an app transaction are kept, except those that identify a device")
    func appTransaction() throws {
        let body = rescinded(at: Self.date)
        let event = try body.event()
        let sent = try #require(body.appTransaction)

        for key in [
            "applicationVersion", "versionExternalIdentifier", "originalApplicationVersion", "appTransactionId",
            "originalPlatform",
        ] {
            #expect(try written(key, of: event) == [try canonical(try #require(sent[key]))], "\(key)")
        }
        #expect(try written("deviceVerification", of: event) == [])
        #expect(try written("deviceVerificationNonce", of: event) == [])
        #expect(!(try text(event)).contains("ZGV2aWNlIHZlcmlmaWNhdGlvbg"))
        #expect(event.unknownFields == [])
    }

    @Test("facts contain no signed text")
    func noSignedText() throws {
        for body in [Self.body, rescinded(at: Self.date)] {
            #expect(!(try text(body.event())).contains("eyJ"))
        }
    }

    @Test("facts are unchanged after they are written and read")
    func roundTrip() throws {
        for row in V2TypeRow.lines {
            let facts = try row.body.event().facts
            #expect(try reread(facts) == facts)
        }
        let facts = try Self.body.event().facts

        #expect(try reread(facts) == facts)
    }
}

func reread(_ facts: Facts) throws -> Facts {
    var writer = JSONWriter()
    writer.object { facts.writeMembers(to: &$0) }
    return try Facts(json: JSONDocument(writer.bytes).root)
}

/// The event as `inspect` prints it.
func text(_ event: Event) throws -> String {
    var writer = JSONWriter()
    writer.object { event.writeMembers(to: &$0) }
    _ = try JSONDocument(writer.bytes)
    return writer.text
}

/// Every value of the key in the written event, at any depth, in the order of the text.
func written(_ key: String, of event: Event) throws -> [String] {
    func search(_ value: JSONValue) -> [String] {
        let inside = value.elements.flatMap(search)
        return inside
            + value.members.flatMap { member, value in
                (member.string == key ? [String(decoding: CanonicalJSON(value).utf8, as: UTF8.self)] : [])
                    + search(value)
            }
    }
    return search(try JSONDocument(Array(try text(event).utf8)).root)
}

func canonical(_ json: JSON) throws -> String {
    String(decoding: CanonicalJSON(try JSONDocument(json.bytes).root).utf8, as: UTF8.self)
}
