import Encoding
import Simulation
import Testing

@Suite("The answers of the simulated Google Play have the form of Google's")
struct PlayAnswerTests {
    private func subscribed(_ change: (inout PlayLife.Details) -> Void = { _ in }) -> PlayLife {
        var details = PlayLife.Details()
        change(&details)
        var life = newPlayLife()
        life.buy(plusMonthly, at: day("2025-01-10T12:00:00Z"), details)
        return life
    }

    @Test("an active subscription has these members; false, 0 and empty ones are left out")
    func active() {
        var life = subscribed()

        let answer = life.answer("2025-01-11")

        #expect(
            answer.keys == [
                "kind", "startTime", "regionCode", "subscriptionState", "latestOrderId", "acknowledgementState",
                "externalAccountIdentifiers", "lineItems",
            ])
        #expect(answer["startTime"] == "2025-01-10T12:00:00Z" && answer["regionCode"] == "US")
        #expect(answer.renewal["autoRenewEnabled"] as? Bool == true)
        #expect(
            answer.text.contains(#""recurringPrice":{"currencyCode":"USD","units":"4","nanos":480000000}"#))
        #expect((answer.items[0]["offerDetails"] as? [String: String]) == ["basePlanId": "monthly"])
        life.cancel(at: day("2025-01-12"))
        #expect(life.answer("2025-01-12").renewal["autoRenewEnabled"] == nil)
        #expect(!life.answer("2025-01-12").text.contains("false"))
    }

    @Test("before the acknowledgement, which comes after twenty seconds, it is pending")
    func acknowledgement() {
        let life = subscribed()

        let states = ["12:00:19", "12:00:20"].map { life.answer("2025-01-10T\($0)Z")["acknowledgementState"] }

        #expect(states == ["ACKNOWLEDGEMENT_STATE_PENDING", "ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED"])
        #expect(PlayJSON(life.subscription(life.tokens[0], at: day("2025-01-09"), rendering)).text.isEmpty)
    }

    @Test("phases, contexts and digits are shown by switch")
    func switches() {
        var trial = subscribed { $0.offer = .freeTrial(.weekly) }
        let shown = trial.answer("2025-01-11") { $0.showsOfferPhase = true }.items[0]
        trial.renew()
        let renewed = trial.answer("2025-01-20") { $0.showsOfferPhase = true }.items[0]
        trial.failToRenew()
        let grace = trial.answer("2025-02-20") { $0.showsStateContexts = true }

        #expect((shown["offerPhase"] as? [String: Any])?.keys.first == "freeTrial")
        #expect((renewed["offerPhase"] as? [String: Any])?.keys.first == "basePrice")
        // The offer stays after the trial.
        #expect((renewed["offerDetails"] as? [String: Any])?["offerId"] as? String == "free-trial")
        #expect(trial.answer("2025-01-11").items[0]["offerPhase"] == nil)
        #expect(grace.text.contains(#""inGracePeriodStateContext":{"renewalDeclined":{"pendingOrderId":"#))
        let exact = trial.answer("2025-01-11") { $0.hasNanoseconds = true }
        #expect(exact["startTime"] == "2025-01-10T12:00:00.000419203Z")
    }

    @Test("a promotion has no order; a whole price has no nanos")
    func promotion() {
        var life = PlayLife(
            customer: PlayCustomer(storefront: Storefront.all[1], account: .none),
            identifiers: PlayIdentifiers(seed: 7, story: 3, life: 0))
        var details = PlayLife.Details()
        details.isPromotion = true
        life.buy(plusMonthly, at: day("2025-01-10"), details)
        let answer = life.answer("2025-01-11")
        life.renew()

        #expect(answer["latestOrderId"] == nil && answer.order == nil)
        #expect(answer.text.contains(#""signupPromotion":{"oneTimeCode":{}}"#))
        #expect(answer.text.contains(#""recurringPrice":{"currencyCode":"JPY","units":"670"}"#))
        #expect(life.oldAnswer("2025-01-11").json["purchaseType"] as? Int == 1 && life.orders.count == 1)
        #expect(life.answer("2025-02-11").order == life.orders[0].orderId && !life.orders[0].orderId.contains(".."))
    }

    @Test("a resubscription in Google Play names the expired token until it is acknowledged")
    func outOfApp() {
        let life = subscribed {
            $0.account = PlayAccount.none
            $0.isOutsideApp = true
            $0.expiredToken = "expired"
            $0.expiredAccount = PlayAccount(obfuscatedAccountId: "user-9")
        }

        let before = life.answer("2025-01-10T12:00:10Z")

        #expect(
            before.text.contains(
                #""outOfAppPurchaseContext":{"expiredPurchaseToken":"expired","#
                    + #""expiredExternalAccountIdentifiers":{"obfuscatedExternalAccountId":"user-9"}}"#))
        #expect(!life.answer("2025-01-10T12:00:30Z").keys.contains("outOfAppPurchaseContext"))
        #expect(before["linkedPurchaseToken"] == nil && life.key.owners(at: day("2025-01-11")) == ["user-9"])
    }

    @Test("the old resource writes numbers of 64 bits as texts, and the payment's state by the subscription's")
    func oldResource() {
        var life = subscribed { $0.offer = .freeTrial(.weekly) }
        let trial = life.oldAnswer("2025-01-11")
        life.renew()
        let paid = life.oldAnswer("2025-01-20")
        life.failToRenew()
        let grace = life.oldAnswer("2025-02-18")
        life.cancel(at: day("2025-02-20"))
        let cancelled = life.oldAnswer("2025-02-21")

        #expect([trial, paid, grace].map { $0.json["paymentState"] as? Int } == [2, 1, 0])
        #expect(cancelled.json["paymentState"] == nil && cancelled.json["cancelReason"] as? Int == 0)
        #expect(trial["startTimeMillis"] == "1736510400000" && trial["priceAmountMicros"] == "4480000")
        #expect(trial.json["autoRenewing"] as? Bool == true && cancelled.json["autoRenewing"] as? Bool == false)
        #expect(trial.json["purchaseType"] == nil && trial["countryCode"] == "US")
        #expect(cancelled["expiryTimeMillis"] == String(day("2025-02-20").milliseconds))
    }

    @Test("an order shows its service period, and no deferral of it")
    func order() throws {
        var life = subscribed()
        let end = life.paidEnd
        life.defer(by: .seconds(86_400), at: day("2025-01-11"))
        life.refund(at: day("2025-01-20"))

        let order = try #require(life.orders.first)

        let before = PlayJSON(order.answer(at: day("2025-01-12"), rendering))
        #expect(before["state"] == "PROCESSED" && before["createTime"] == "2025-01-10T12:00:00Z")
        #expect(before.text.contains(#""servicePeriodStartTime":"2025-01-10T12:00:00Z""#))
        #expect(before.text.contains(#""servicePeriodEndTime":"\#(end)""#))
        #expect(PlayJSON(order.answer(at: day("2025-01-20"), rendering))["state"] == "REFUNDED")
        #expect(order.answer(at: day("2025-01-10T11:59:59Z"), rendering) == nil)
    }

    @Test("a message says what changed, and its time as a text")
    func message() throws {
        var life = subscribed()
        life.refund(at: day("2025-01-20"))
        var short = rendering
        short.sendsSubscriptionId = false

        let bought = PlayJSON(life.messages[0].notification(rendering))
        let void = PlayJSON(life.messages[3].notification(rendering))

        #expect(bought["version"] == "1.0" && bought["packageName"] == "com.example.magazine")
        #expect(bought["eventTimeMillis"] == String(life.messages[0].eventTime.milliseconds))
        let section = try #require(bought.json["subscriptionNotification"] as? [String: Any])
        #expect(section["notificationType"] as? Int == 4 && section["subscriptionId"] as? String == "plus")
        #expect(section["purchaseToken"] as? String == life.tokens[0].token)
        #expect(!PlayJSON(life.messages[0].notification(short)).text.contains("subscriptionId"))
        let voided = try #require(void.json["voidedPurchaseNotification"] as? [String: Any])
        #expect(voided["orderId"] as? String == life.orders[0].orderId && voided["productType"] as? Int == 1)
        #expect(voided["refundType"] as? Int == 1)
    }

    @Test("Pub/Sub spells its members in one or both ways, or sends the message alone")
    func push() throws {
        let message = subscribed().messages[0]
        var push = PlayPush(subscription: "projects/p/subscriptions/s")
        let both = try #require(PlayJSON(push.body(message, rendering)).json["message"] as? [String: String])
        push.spelling = .snake
        push.deliveryAttempt = 3
        let snake = PlayJSON(push.body(message, rendering))
        push.wrapping = .unwrapped(writesMetadata: true)

        #expect(Set(both.keys) == ["data", "messageId", "message_id", "publishTime", "publish_time"])
        #expect(both["messageId"]?.count == 17 && both["messageId"] == both["message_id"])
        let data = try #require(Base64.decode(Array((both["data"] ?? "").utf8)[...], .standard))
        #expect(data == message.notification(rendering))
        let snakeKeys = (snake.json["message"] as? [String: String])?.keys.sorted()
        #expect(snakeKeys == ["data", "message_id", "publish_time"])
        #expect(snake.json["deliveryAttempt"] as? Int == 3 && snake["subscription"] == "projects/p/subscriptions/s")
        #expect(push.body(message, rendering) == message.notification(rendering))
        #expect(push.headers(message).first?.name == "x-goog-pubsub-message-id")
    }
}

@Suite("One-time purchases of the simulated Google Play")
struct PlayOneTimeTests {
    private func bought(_ quantity: Int = 1, product: Product? = nil) -> PlayOneTimeLife {
        PlayOneTimeLife(
            buying: product ?? .nonConsumable(of: "app"), quantity: quantity, at: day("2025-01-10"),
            customer: PlayCustomer(storefront: Storefront.all[0], account: .none),
            identifiers: PlayIdentifiers(seed: 7, story: 3, life: 0))
    }

    private func answer(_ life: PlayOneTimeLife, _ date: String) -> PlayJSON {
        PlayJSON(life.productV2(at: day(date), rendering))
    }

    private func state(_ answer: PlayJSON) -> String? {
        (answer.json["purchaseStateContext"] as? [String: String])?["purchaseState"]
    }

    @Test("a purchase that is paid later is owned from its payment on, until it is refunded")
    func pending() {
        var life = bought()
        life.pay(at: day("2025-01-12"))
        life.refund(at: day("2025-02-01"))

        #expect(state(answer(life, "2025-01-11")) == "PENDING" && state(answer(life, "2025-01-12")) == "PURCHASED")
        #expect(state(answer(life, "2025-02-01")) == "CANCELLED")
        #expect(answer(life, "2025-01-11")["purchaseCompletionTime"] == nil)
        #expect(answer(life, "2025-01-12")["purchaseCompletionTime"] == "2025-01-12T00:00:00Z")
        #expect(life.key.access.isHeld(at: day("2025-01-20")) && !life.key.access.isActive(at: day("2025-01-20")))
        #expect(!life.key.access.isHeld(at: day("2025-01-11")) && life.key.status(at: day("2025-02-01")) == .refunded)
        #expect(life.messages.count == 2 && life.voids.count == 1)
        #expect(PlayJSON(life.product(at: day("2025-01-11"))).json["purchaseState"] as? Int == 2)
    }

    @Test("units are refunded one part after another; the last void has no quantity")
    func quantity() {
        var life = bought(10, product: .consumable(of: "app"))
        life.pay(at: day("2025-01-10"))

        life.refund(units: 2, at: day("2025-01-11"))
        life.refund(units: 3, at: day("2025-01-12"))
        life.refund(units: 5, at: day("2025-01-13"))

        #expect(life.voids.map(\.quantity) == [2, 3, nil] && Set(life.voids.map(\.orderId)).count == 1)
        #expect([10, 11, 12, 13].map { life.units(at: day("2025-01-\($0)")) } == [10, 8, 5, 0])
        let item = (answer(life, "2025-01-12").json["productLineItem"] as? [[String: Any]])?.first
        let details = item?["productOfferDetails"] as? [String: Any]
        #expect(details?["refundableQuantity"] as? Int == 5)
        #expect(life.orders[0].state(at: day("2025-01-12")) == .partiallyRefunded)
    }

    @Test("a purchase that is neither acknowledged nor consumed in three days is taken back")
    func deadline() {
        func left(isConsumed: Bool) -> PlayOneTimeLife {
            var life = PlayOneTimeLife(
                buying: .consumable(of: "app"), quantity: 3, at: day("2025-01-10"),
                customer: PlayCustomer(storefront: Storefront.all[0], account: .none),
                identifiers: PlayIdentifiers(seed: 7, story: 3, life: 0), isAcknowledgedByApp: false)
            life.pay(at: day("2025-01-10"))
            if isConsumed { life.consume(at: day("2025-01-12")) }
            life.finish(at: day("2025-02-01"))
            return life
        }

        #expect(left(isConsumed: false).voids.map(\.reason) == [.unacknowledged])
        #expect(left(isConsumed: false).voids.map(\.voidedTime) == [day("2025-01-13")])
        #expect(left(isConsumed: true).voids.isEmpty)
    }

    @Test("the list of voided purchases writes codes as numbers or texts")
    func voids() {
        var life = bought()
        life.pay(at: day("2025-01-10"))
        life.refund(source: .google, reason: .chargeBack, at: day("2025-01-12"))
        var texts = rendering
        texts.hasVoidCodesAsText = true

        let list = PlayJSON(PlayVoid.answer(life.voids, nextPageToken: "next", rendering))

        let row = (list.json["voidedPurchases"] as? [[String: Any]])?.first ?? [:]
        #expect(row["voidedReason"] as? Int == 7 && row["voidedSource"] as? Int == 2)
        #expect(row["voidedTimeMillis"] as? String == String(day("2025-01-12").milliseconds))
        #expect(row["voidedQuantity"] == nil && list.text.contains(#""tokenPagination":{"nextPageToken":"next"}"#))
        #expect(PlayJSON(PlayVoid.answer(life.voids, nextPageToken: nil, texts)).text.contains(#""voidedReason":"7""#))
        #expect(PlayVoid.answer([], nextPageToken: nil, rendering) == Array("{}".utf8))
    }
}
