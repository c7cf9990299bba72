import Encoding
import Subscriptions
import Testing

@testable import PlayStore

/// The fact of an answer about the purchase `token-1`.
func statement(
    _ body: String, _ resource: PlayResource = .subscriptionV2, environment: Environment? = nil,
    notices: [PurchaseFact] = []
) throws -> PlayStatement {
    try PlayStatement.answer(
        Array(body.utf8), of: resource,
        about: PlayStatement.Subject(
            packageName: "com.example.app", purchaseToken: PurchaseToken("token-1")!, environment: environment,
            notices: notices),
        answeredAt: TestKeys.now)
}

func snapshot(_ body: String, _ resource: PlayResource = .subscriptionV2) throws -> PurchaseSnapshot {
    guard case .snapshot(let snapshot) = try statement(body, resource).event.purchases.first else {
        throw UnreadableJSON.notAnObject
    }
    return snapshot
}

@Suite("Answers of the Google Play Developer API")
struct PlayAnswerTests {
    static let active = """
        {
          "kind": "androidpublisher#subscriptionPurchaseV2", "startTime": "2025-10-21T04:59:50.700Z",
          "regionCode": "DE", "subscriptionState": "SUBSCRIPTION_STATE_ACTIVE", "latestOrderId": "GPA.1..0",
          "linkedPurchaseToken": "token-0", "acknowledgementState": "ACKNOWLEDGEMENT_STATE_PENDING",
          "externalAccountIdentifiers": {"obfuscatedExternalAccountId": "u-1", "obfuscatedExternalProfileId": "p-1"},
          "lineItems": [{
            "productId": "premium", "expiryTime": "2025-11-21T05:00:00.123456789Z",
            "latestSuccessfulOrderId": "GPA.1",
            "autoRenewingPlan": {
              "autoRenewEnabled": true,
              "recurringPrice": {"currencyCode": "EUR", "units": "4", "nanos": 990000000},
              "priceChangeDetails": {
                "newPrice": {"currencyCode": "EUR", "units": "5"}, "priceChangeState": "OUTSTANDING",
                "priceChangeMode": "PRICE_INCREASE", "expectedNewPriceChargeTime": "2025-12-21T05:00:00Z"}},
            "offerDetails": {"basePlanId": "monthly", "offerId": "trial", "offerTags": ["a"]}
          }]
        }
        """

    @Test("without an order in the item name it beside the items, unless a payment is open")
    func orderOfAnswer() throws {
        let old = Self.active.replacing(#""latestSuccessfulOrderId": "GPA.1","#, with: "")
        let grace = old.replacing("STATE_ACTIVE", with: "STATE_IN_GRACE_PERIOD")

        #expect(try snapshot(old).items.map(\.orderId) == ["GPA.1..0"])
        #expect(try snapshot(old).items.map(\.isOrderUnknown) == [false])
        #expect(try snapshot(grace).items.map(\.orderId) == [nil])
        #expect(try snapshot(grace).items.map(\.isOrderUnknown) == [true])
    }

    @Test("about an active subscription are read whole")
    func activeSubscription() throws {
        let stated = try statement(Self.active)
        let read = try snapshot(Self.active)
        let item = try #require(read.items.first)

        #expect(stated.stream == StreamKey(app: "com.example.app", environment: .production))
        #expect(stated.event.source == .googleAPI)
        #expect(stated.event.occurredAt == TestKeys.now)
        #expect(stated.event.type == "ACTIVE")
        #expect(stated.event.defects.isEmpty)
        #expect(read.purchaseToken == "token-1")
        #expect(read.linkedPurchaseToken == "token-0")
        #expect(read.state == .active)
        #expect(read.startTime == at("2025-10-21T04:59:50.700Z"))
        #expect(read.region == "DEU")
        #expect(read.isAcknowledged == false)
        #expect(read.accountId == "u-1")
        #expect(item.productKey == "premium:monthly")
        #expect(item.expiryTime == at("2025-11-21T05:00:00.123Z"))
        #expect(item.orderId == "GPA.1")
        #expect(item.offerId == "trial")
        #expect(item.phase == nil)
        #expect(item.isAutoRenewing == true)
        #expect(item.price == 4990)
        #expect(item.currency == "EUR")
        #expect(item.newPrice == 5000)
        #expect(item.newPriceState == "OUTSTANDING")
        #expect(item.newPriceMode == "PRICE_INCREASE")
        #expect(item.newPriceTime == at("2025-12-21T05:00:00Z"))
    }

    @Test("are stored with what they do not say, and are read from that again")
    func evidence() throws {
        let notice = PurchaseFact.notice(PurchaseNotice(purchaseToken: "token-1", kind: .recovered, at: TestKeys.now))
        let stated = try statement(Self.active, notices: [notice])
        let again = try PlayStatement.event(
            decoding: stated.evidence.bytes, source: .googleAPI, environment: .production, answeredAt: TestKeys.now)

        #expect(again == stated.event)
        #expect(again.purchases.count == 2)
        #expect(again.subscriptions == [ByteString("token-1"), ByteString("token-0")])
        #expect(String(decoding: stated.evidence.bytes, as: UTF8.self).contains(Self.active))
        #expect(stated.event.dedupeKey != (try statement(Self.active)).event.dedupeKey)
    }

    @Test("leave out false, zero and empty values")
    func missingValues() throws {
        let body = """
            {"subscriptionState":"SUBSCRIPTION_STATE_CANCELED","startTime":"2025-10-21T05:00:00Z","lineItems":[{"productId":"premium",
            "expiryTime":"2025-11-21T05:00:00Z","autoRenewingPlan":{"recurringPrice":{"currencyCode":"HUF","units":"1990"}}}],
            "canceledStateContext":{"userInitiatedCancellation":{"cancelTime":"2025-10-22T00:00:00Z"}}}
            """
        let read = try snapshot(body)

        #expect(read.items.first?.isAutoRenewing == false)
        #expect(read.items.first?.price == 1_990_000)
        #expect(read.cancelReason == .user)
        #expect(read.cancelTime == at("2025-10-22T00:00:00Z"))
        #expect(try statement(body).event.defects.isEmpty)
        let free = body.replacing(#""units":"1990""#, with: #""nanos":500000"#)
        #expect(try snapshot(free).items.first?.price == 1)
        #expect(try statement(free).event.defects.count == 1)
    }

    @Test(
        "about test purchases belong to the sandbox, by what is present and never by what is missing",
        arguments: [
            (PlayResource.subscriptionV2, #""testPurchase":{}"#, Environment.sandbox),
            (.subscriptionV2, #""kind":"x""#, .production),
            (.productV2, #""testPurchaseContext":{"fopType":"TEST"}"#, .sandbox),
            (.productV2, #""kind":"x""#, .production),
        ] as [(PlayResource, String, Environment)])
    func environments(resource: PlayResource, member: String, environment: Environment) throws {
        let common = """
            {\(member),"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE","purchaseStateContext":{"purchaseState":"PURCHASED"}}
            """

        #expect(try statement(common, resource).stream.environment == environment)
    }

    @Test("keep states and other names that this version does not know")
    func unknownNames() throws {
        let read = try snapshot(
            #"{"subscriptionState":"SUBSCRIPTION_STATE_FROZEN","regionCode":"QQ","lineItems":[{"productId":"a"}]}"#)

        #expect(read.stateName == "FROZEN")
        #expect(read.state == nil)
        #expect(read.region == "QQ")
    }

    struct ItemCase: Sendable {
        let members: String
        let holds: @Sendable (PurchaseSnapshot.Item) -> Bool

        init(_ members: String, _ holds: @escaping @Sendable (PurchaseSnapshot.Item) -> Bool) {
            self.members = members
            self.holds = holds
        }
    }

    static let itemCases = [
        ItemCase(#""prepaidPlan":{"allowExtendAfterTime":"2025-11-01T00:00:00Z"}"#) {
            $0.isPrepaid && $0.isAutoRenewing == false
        },
        ItemCase(#""autoRenewingPlan":{"autoRenewEnabled":true},"deferredItemReplacement":{"productId":"gold"}"#) {
            $0.nextProductId == "gold"
        },
        ItemCase(#""deferredItemRemoval":{}"#) { $0.isRemoved },
        ItemCase(#""offerPhase":{"freeTrial":{}}"#) { $0.phase == "FREE_TRIAL" },
        ItemCase(#""offerPhase":{"introductoryPrice":{}}"#) { $0.phase == "INTRODUCTORY_PRICE" },
        ItemCase(#""offerPhase":{"basePrice":{}}"#) { $0.phase == "BASE_PRICE" },
        ItemCase(#""offerPhase":{"prorationPeriod":{"originalOfferPhaseType":"BASE"}}"#) {
            $0.phase == "PRORATION_PERIOD"
        },
        ItemCase(
            #""autoRenewingPlan":{"autoRenewEnabled":true,"installmentDetails":{"remainingCommittedPaymentsCount":3,"pendingCancellation":{}}}"#
        ) { $0.paymentsCommitted == 3 && $0.isEndingAfterCommitment },
        ItemCase(#""expiryTime":null"#) { $0.expiryTime == nil && $0.orderId == nil },
    ]

    @Test("say how each item goes on", arguments: itemCases.indices)
    func items(index: Int) throws {
        let item = Self.itemCases[index]
        let read = try snapshot(
            #"{"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE","lineItems":[{"productId":"premium",\#(item.members)}]}"#
        )

        #expect(item.holds(try #require(read.items.first)))
    }

    @Test("say which purchase a customer bought again in Google Play")
    func outOfApp() throws {
        let read = try snapshot(
            """
            {"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE","outOfAppPurchaseContext":{"expiredPurchaseToken":"token-0",
            "expiredExternalAccountIdentifiers":{"obfuscatedExternalAccountId":"u-1"}}}
            """)

        #expect(read.expiredPurchaseToken == "token-0")
        #expect(read.expiredAccountId == "u-1")
        #expect(read.linkedPurchaseToken == nil)
    }

    @Test(
        "say why renewal ended one level inside the context",
        arguments: [
            ("userInitiatedCancellation", PurchaseSnapshot.CancelReason.user), ("systemInitiatedCancellation", .system),
            ("developerInitiatedCancellation", .developer), ("replacementCancellation", .replaced),
        ])
    func cancellations(member: String, reason: PurchaseSnapshot.CancelReason) throws {
        let body = #"{"subscriptionState":"SUBSCRIPTION_STATE_EXPIRED","canceledStateContext":{"\#(member)":{}}}"#

        #expect(try snapshot(body).cancelReason == reason)
    }

    @Test("about products say what was bought")
    func products() throws {
        let new = try snapshot(
            """
            {"purchaseStateContext":{"purchaseState":"PURCHASED"},"purchaseCompletionTime":"2025-10-21T05:00:00Z",
            "orderId":"GPA.1","acknowledgementState":"ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED","productLineItem":[{"productId":"coins",
            "productOfferDetails":{"quantity":10,"refundableQuantity":8,"consumptionState":"CONSUMPTION_STATE_CONSUMED"}}]}
            """, .productV2)

        #expect(new.kind == .product && new.state == .purchased)
        #expect(new.items.first?.quantity == 10 && new.items.first?.refundableQuantity == 8)
        #expect(new.items.first?.isConsumed == true)
        #expect(new.isAcknowledged == true)
        #expect(
            try snapshot(#"{"purchaseStateContext":{"purchaseState":"CANCELLED"}}"#, .productV2).state == .cancelled)
    }

    @Test("about several orders are read as those about one, and show which may be refunded")
    func orderList() throws {
        let plain = #"{"orderId":"GPA.1","state":"PROCESSED","orderHistory":{"processedEvent":{}}}"#
        let part = #"{"orderId":"GPA.2","state":"PROCESSED","orderHistory":{"partialRefundEvents":[{}]}}"#
        let others = ["PARTIALLY_REFUNDED", "REFUNDED", "SOMETHING_NEW"]
            .map { #"{"orderId":"GPA.3","state":"\#($0)"}"# }
        let body = #"{"orders":[\#(([plain, part] + others).joined(separator: ",")),{"state":"REFUNDED"},7]}"#

        let list = try OrderList(decoding: Array(body.utf8))

        #expect(list.orders.map(\.orderId) == ["GPA.1", "GPA.2", "GPA.3", "GPA.3", "GPA.3"])
        #expect(list.orders.map(\.mayBeRefunded) == [false, true, true, true, true])
        #expect(list.orders.map { String(decoding: $0.body, as: UTF8.self) } == [plain, part] + others)
        #expect(try OrderList(decoding: Array("{}".utf8)).orders.isEmpty)
        #expect(throws: UnreadableJSON.self) { try OrderList(decoding: Array("[]".utf8)) }
    }

    @Test("about rentals and orders in advance say what they are, also when read back")
    func rentalsAndPreorders() throws {
        let body = """
            {"purchaseStateContext":{"purchaseState":"PURCHASED"},"purchaseCompletionTime":"2026-05-01T05:00:00Z",
            "orderId":"GPA.1","productLineItem":[
            {"productId":"film","productOfferDetails":{"purchaseOptionId":"rent-48h","rentOfferDetails":{}}},
            {"productId":"game","productOfferDetails":{"purchaseOptionId":"early",
            "preorderOfferDetails":{"preorderReleaseTime":"2026-06-01T05:00:00Z"}}}]}
            """
        let read = try snapshot(body, .productV2)

        #expect(read.items.map(\.isRental) == [true, false])
        #expect(read.items.map(\.purchaseOptionId) == ["rent-48h", "early"])
        #expect(read.items.map(\.releaseTime) == [nil, at("2026-06-01T05:00:00Z")])
        var writer = JSONWriter()
        PurchaseFact.snapshot(read).write(to: &writer)
        #expect(try PurchaseFact(json: JSONDocument(writer.bytes).root) == .snapshot(read))
    }

    @Test(
        "that end a subscription when it begins, or before, have a defect",
        arguments: [("2026-05-01T05:00:00Z", true), ("2026-05-01T04:59:57Z", true), ("2026-05-01T05:00:01Z", false)])
    func withoutDuration(_ end: String, _ isDefect: Bool) throws {
        let event = try statement(
            """
            {"subscriptionState":"SUBSCRIPTION_STATE_CANCELED","startTime":"2026-05-01T05:00:00Z",
            "lineItems":[{"productId":"premium","expiryTime":"\(end)"}]}
            """, .subscriptionV2
        ).event

        #expect(event.defects.contains { $0.path.hasSuffix("expiryTime") } == isDefect)
        #expect(event.purchases.count == 1)
    }

    @Test(
        "that give access but name no end have a defect",
        arguments: [
            ("ACTIVE", "[]", true), ("IN_GRACE_PERIOD", #"[{"productId":"premium"}]"#, true),
            ("CANCELED", #"[{"productId":"premium"},{"productId":"audio"}]"#, true),
            ("ACTIVE", #"[{"productId":"premium"},{"productId":"audio","expiryTime":"2026-06-01T05:00:00Z"}]"#, false),
            ("EXPIRED", "[]", false), ("ON_HOLD", "[]", false), ("PENDING", "[]", false),
        ])
    func withoutEnd(_ state: String, _ items: String, _ isDefect: Bool) throws {
        let event = try statement(
            """
            {"subscriptionState":"SUBSCRIPTION_STATE_\(state)","startTime":"2026-05-01T05:00:00Z","lineItems":\(items)}
            """, .subscriptionV2
        ).event

        #expect(event.defects.contains { $0.path.hasSuffix("lineItems") } == isDefect, "\(event.defects)")
        #expect(event.purchases.count == 1)
    }

    @Test("about orders say when a period began and what was paid, and need a known environment")
    func orders() throws {
        let body = """
            {"orderId":"GPA.1..0","purchaseToken":"token-1","createTime":"2025-11-21T05:00:10Z","state":"PROCESSED",
            "total":{"currencyCode":"EUR","units":"3","nanos":990000000},"lineItems":[{"productId":"premium",
            "subscriptionDetails":{"basePlanId":"monthly","servicePeriodStartTime":"2025-11-21T05:00:00Z",
            "servicePeriodEndTime":"2025-12-21T05:00:00Z","offerPhaseDetails":{"freeTrialDetails":{}}}}]}
            """
        guard case .order(let order) = try statement(body, .order, environment: .sandbox).event.purchases[0] else {
            Issue.record("no order")
            return
        }

        #expect(order.total == 3990)
        #expect(order.items.first?.periodStart == at("2025-11-21T05:00:00Z"))
        #expect(order.items.first?.phase == "FREE_TRIAL")
        #expect(throws: PlayStatementRefusal.environmentUnknown) { try statement(body, .order) }
    }

    @Test(
        "that are cut off, empty, HTML or another thing are no facts",
        arguments: [
            "", "<html>", "{", "[]", "{}", #"{"subscriptionState":"#, #"{"error":{"code":404}}"#,
        ])
    func unreadable(body: String) {
        for resource in PlayResource.allCases {
            #expect(throws: PlayStatementRefusal.self) {
                try statement(body, resource, environment: .production)
            }
        }
    }

    @Test("accept a token of 1,000 characters, and links to one")
    func longTokens() throws {
        let token = PurchaseToken(String(repeating: "x", count: 1000))!
        let body =
            #"{"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE","linkedPurchaseToken":"\#(String(repeating: "y", count: 1000))"}"#
        let stated = try PlayStatement.answer(
            Array(body.utf8), of: .subscriptionV2,
            about: PlayStatement.Subject(packageName: "com.example.app", purchaseToken: token), answeredAt: TestKeys.now
        )
        guard case .snapshot(let read) = stated.event.purchases[0] else { return }

        #expect(read.purchaseToken == token.key && read.longPurchaseToken == token.text)
        #expect(read.linkedPurchaseToken?.hasPrefix("sha256:") == true)
        #expect(stated.event.subscriptions.allSatisfy { $0.text.utf8.count <= 255 })
    }

    @Test("of gone purchases change nothing by themselves")
    func gone() throws {
        let subject = PlayStatement.Subject(
            packageName: "com.example.app", purchaseToken: PurchaseToken("token-1")!, environment: .production)
        let stated = try PlayStatement.gone(about: subject, answeredAt: TestKeys.now)

        #expect(
            stated.event.purchases
                == [.notice(PurchaseNotice(purchaseToken: "token-1", kind: .gone, at: TestKeys.now))])
        let again = try PlayStatement.event(
            decoding: stated.evidence.bytes, source: .googleAPI, environment: .production, answeredAt: TestKeys.now)
        #expect(again == stated.event)
    }

    @Test("list voided purchases, with numbers as texts too")
    func voided() throws {
        let page = try VoidedPurchasePage(
            decoding: Array(
                """
                {"tokenPagination":{"nextPageToken":"next"},"voidedPurchases":[
                {"purchaseToken":"t","orderId":"GPA.1..0","purchaseTimeMillis":"1761000000000","voidedTimeMillis":"1761022799877",
                "voidedSource":"1","voidedReason":"7"},
                {"purchaseToken":"t","orderId":"GPA.2","voidedTimeMillis":1761022799877,"voidedSource":0,"voidedReason":8,"voidedQuantity":2},
                {"orderId":"GPA.3"}]}
                """.utf8))

        #expect(page.rows.map(\.orderId) == ["GPA.1..0", "GPA.2"])
        #expect(page.rows.map(\.reason) == [7, 8])
        #expect(page.rows.map(\.quantity) == [nil, 2])
        #expect(page.nextPageToken == "next")
        #expect(page.defects.count == 1)
        let stated = try PlayStatement.voided(
            page.rows[0], packageName: "com.example.app", environment: .sandbox, answeredAt: TestKeys.now)
        #expect(stated.stream.environment == .sandbox && stated.event.source == .googleVoided)
        #expect(stated.event.purchases == [page.rows[0].fact])
        #expect(
            try PlayStatement.event(
                decoding: stated.evidence.bytes, source: .googleVoided, environment: .sandbox, answeredAt: TestKeys.now)
                == stated.event)
        #expect(throws: UnreadableJSON.self) { try VoidedPurchasePage(decoding: Array("{\"voided".utf8)) }
    }

    @Test(
        "name regions as Apple does",
        arguments: [("DE", "DEU"), ("us", "USA"), ("XK", "XKS"), ("GB", "GBR"), ("ZZ", "ZZ")])
    func regions(alpha2: String, alpha3: String) {
        #expect(Region.alpha3(of: alpha2) == alpha3)
    }
}
