import Encoding
import Simulation
import Testing

@Suite("The simulated Google Play Developer API")
struct PlayAPITests {
    @Test("a subscription is answered as its books stand at the clock")
    func subscription() throws {
        let bundle = try PlayBundle([.cancelled])
        let bought = try #require(bundle.life.tokens[0].history.first).at
        let states = try [bought, bundle.time(of: .canceled), bundle.time(of: .expired)].map { instant in
            bundle.play.now = instant
            return bundle.subscription()?.state
        }
        bundle.play.now = bought.advanced(byMilliseconds: -1)

        #expect(states == ["ACTIVE", "CANCELED", "EXPIRED"])
        #expect(bundle.subscription()?.problem == "404 purchaseTokenNotFound")
        #expect(bundle.play.counts.first?.question.endpoint == .subscriptionV2)
    }

    @Test("requests without a token, with another one, of another app and of no endpoint are refused")
    func refusals() throws {
        let bundle = try PlayBundle()
        let path = "purchases/subscriptionsv2/tokens/\(bundle.token)"

        let problems = [
            bundle.call("GET", path, authorization: .some(nil)),
            bundle.call("GET", path, authorization: "Bearer ya29.x"),
            bundle.call("GET", path, packageName: "com.example.other"), bundle.call("purchases/unknown/tokens/x"),
            bundle.call("POST", path),
        ].map { $0?.problem }

        #expect(
            problems == [
                "401 required", "401 authError", "403 developerDoesNotOwnApplication", "404 notFound", "404 notFound",
            ])
    }

    @Test("an order id in place of a token is invalid, a foreign token unknown, one of the other kind refused")
    func tokens() throws {
        let bundle = try PlayBundle([.renewals, .oneTimePurchase], count: 2)
        let oneTime = bundle.play.story(1).oneTimePurchases[0]
        let foreign = String(bundle.token.reversed())

        #expect(bundle.subscription(bundle.life.orders[0].orderId)?.problem == "400 invalid")
        #expect(bundle.subscription(foreign)?.problem == "404 purchaseTokenNotFound")
        #expect(bundle.subscription(oneTime.token)?.problem == "410 purchaseTokenNoLongerValid")
        #expect(bundle.call("purchases/productsv2/tokens/\(bundle.token)")?.problem == "400 invalid")
        #expect(bundle.call("purchases/productsv2/tokens/\(oneTime.token)")?.status == 200)
        #expect(bundle.call("purchases/products/lifetime/tokens/\(oneTime.token)")?.status == 200)
        #expect(
            bundle.call("purchases/products/coins/tokens/\(oneTime.token)")?.problem == "400 purchaseTokenMismatch")
    }

    @Test("the old resource needs the product, and has the same dates")
    func oldResource() throws {
        let bundle = try PlayBundle([.cancelled])
        bundle.play.now = try bundle.time(of: .canceled)
        let product = bundle.life.plan.productId

        let old = bundle.call("purchases/subscriptions/\(product)/tokens/\(bundle.token)")
        let other = bundle.call("purchases/subscriptions/other/tokens/\(bundle.token)")

        #expect(old?.json["expiryTimeMillis"] as? String == String(bundle.life.paidEnd.milliseconds))
        #expect(old?.json["cancelReason"] != nil && other?.problem == "400 purchaseTokenMismatch")
    }

    @Test("60 days after its end a subscription is gone", arguments: SimulatedPlay.Settings.TooOld.allCases)
    func tooOld(form: SimulatedPlay.Settings.TooOld) throws {
        let bundle = try PlayBundle { $0.tooOld = form }
        let ended = try #require(bundle.life.tokens[0].history.last).at
        bundle.play.now = ended.advanced(by: .seconds(60 * 86_400))
        let kept = bundle.subscription()?.state
        bundle.play.now = ended.advanced(by: .seconds(60 * 86_400)).advanced(byMilliseconds: 1)

        let gone = bundle.subscription()

        #expect(kept == "EXPIRED")
        switch form {
        case .gone: #expect(gone?.problem == "410 subscriptionPurchaseNoLongerAvailable")
        case .failedPrecondition:
            #expect(gone?.status == 400)
            #expect((gone?.json["error"] as? [String: Any])?["status"] as? String == "FAILED_PRECONDITION")
        }
    }

    @Test("a deleted account is gone for good")
    func deleted() throws {
        let bundle = try PlayBundle()

        bundle.play.deleteAccount(of: bundle.token)

        #expect(bundle.subscription()?.problem == "410 subscriptionNoLongerAvailable")
    }

    @Test("the first answers after a change show the time before it")
    func stale() throws {
        let bundle = try PlayBundle([.cancelled]) { $0.staleAnswers = 2 }
        bundle.play.now = try bundle.time(of: .canceled)

        let states = (0..<3).map { _ in bundle.subscription()?.state }

        #expect(states == ["ACTIVE", "ACTIVE", "CANCELED"])
    }

    @Test("a new token is not found for a while")
    func newToken() throws {
        let bundle = try PlayBundle { $0.newTokenDelay = .seconds(20) }
        let bought = try #require(bundle.life.tokens[0].history.first).at
        bundle.play.now = bought.advanced(byMilliseconds: 19_999)
        let early = bundle.subscription()?.status
        bundle.play.now = bought.advanced(byMilliseconds: 20_000)

        #expect(early == 404 && bundle.subscription()?.status == 200)
    }

    @Test("orders are answered one by one or together; one unknown order fails all")
    func orders() throws {
        let bundle = try PlayBundle()
        let ids = bundle.life.orders.map(\.orderId)

        func batch(_ ids: [String]) -> PlayResponse? {
            bundle.call("orders:batchGet", query: ids.map { (name: "orderIds", value: $0) })
        }

        #expect(bundle.call("orders/\(ids[0])")?.json["orderId"] as? String == ids[0])
        #expect((batch(ids)?.json["orders"] as? [Any])?.count == ids.count)
        #expect(batch(ids + ["GPA.1234-5678-9012-34567"])?.problem == "404 notFound")
        #expect(batch([])?.problem == "400 required")
        #expect(batch(Array(repeating: ids[0], count: 1001))?.problem == "400 invalidValue")
        #expect(bundle.call("orders/\(ids[0])..77")?.problem == "404 notFound")
    }
}

@Suite("Acknowledgements of the simulated Google Play")
struct PlayAcknowledgementTests {
    @Test("an acknowledgement has no body, with the product, without it, and without its segment")
    func forms() throws {
        for number in 0..<3 {
            let bundle = try PlayBundle(isAcknowledgedByApp: false)
            bundle.play.now = bundle.life.tokens[0].history[0].at.advanced(by: .seconds(60))
            let path = [
                "purchases/subscriptions/\(bundle.life.plan.productId)/tokens/", "purchases/subscriptions//tokens/",
                "purchases/subscriptions/tokens/",
            ][number]

            let response = bundle.call("POST", "\(path)\(bundle.token):acknowledge")

            #expect(response?.status == 204 && response?.body == [] && response?.contentType == nil)
            let state = bundle.subscription()?.json["acknowledgementState"] as? String
            #expect(state == "ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED")
            #expect(bundle.play.acknowledgements.map(\.isRepeated) == [false])
        }
    }

    @Test("a purchase that is not acknowledged in three days is revoked; one that is goes on")
    func deadline() throws {
        let bundle = try PlayBundle(isAcknowledgedByApp: false)
        let saved = try PlayBundle(isAcknowledgedByApp: false)
        let bought = bundle.life.tokens[0].history[0].at
        let deadline = bought.advanced(by: .seconds(3 * 86_400))
        bundle.play.now = deadline
        saved.play.now = bought.advanced(by: .seconds(3 * 86_400 - 1))
        _ = saved.acknowledge()
        saved.play.now = deadline.advanced(by: .seconds(60))

        let late = bundle.acknowledge()

        #expect(late?.problem == "400 productNotOwnedByUser" && bundle.subscription()?.state == "EXPIRED")
        #expect(bundle.life.messages.map { $0.subscriptionType?.rawValue ?? 0 } == [4, 12, 13, 0])
        #expect(bundle.life.voids.map(\.reason) == [.unacknowledged])
        #expect(saved.subscription()?.state == "ACTIVE" && saved.life.voids.isEmpty)
        #expect(saved.life.messages.count > 2)
    }

    @Test("a second acknowledgement succeeds or is refused", arguments: SimulatedPlay.Settings.Repeated.allCases)
    func repeated(form: SimulatedPlay.Settings.Repeated) throws {
        let bundle = try PlayBundle(isAcknowledgedByApp: false) { $0.repeatedAcknowledgement = form }
        bundle.play.now = bundle.life.tokens[0].history[0].at.advanced(by: .seconds(60))
        _ = bundle.acknowledge()

        let second = bundle.acknowledge()

        switch form {
        case .success: #expect(second?.status == 204)
        case .invalidPurchaseState: #expect(second?.problem == "400 invalidPurchaseState")
        case .productNotOwnedByUser: #expect(second?.problem == "400 productNotOwnedByUser")
        }
        #expect(bundle.play.acknowledgements.map(\.isRepeated) == [false, true])
    }

    @Test("a pending purchase cannot be acknowledged, nor one with the product of another")
    func refused() throws {
        let pending = try PlayBundle([.pendingPaid], isAcknowledgedByApp: false)
        pending.play.now = pending.life.tokens[0].history[0].at
        let bundle = try PlayBundle(isAcknowledgedByApp: false)
        bundle.play.now = bundle.life.tokens[0].history[0].at

        #expect(pending.acknowledge()?.problem == "400 invalidPurchaseState")
        #expect(bundle.acknowledge(product: "other")?.problem == "400 purchaseTokenMismatch")
        #expect(bundle.play.acknowledgements.isEmpty)
    }

    @Test("an acknowledgement hides where a resubscription came from")
    func outOfApp() throws {
        let bundle = try PlayBundle([.resubscribedInPlay], isAcknowledgedByApp: false)
        bundle.play.now = bundle.life.tokens[0].history[0].at
        _ = bundle.acknowledge()
        let life = bundle.story.subscriptions[1]
        bundle.play.now = life.tokens[0].history[0].at
        let token = life.tokens[0].token
        let before = bundle.subscription(token)

        _ = bundle.acknowledge(token)

        let context = before?.json["outOfAppPurchaseContext"] as? [String: Any]
        #expect(context?["expiredPurchaseToken"] as? String == bundle.token)
        #expect(bundle.subscription(token)?.json["outOfAppPurchaseContext"] == nil)
    }

    @Test("an acknowledgement names the app user of a purchase outside the app, and of no other")
    func accounts() throws {
        let bundle = try PlayBundle([.resubscribedInPlay], isAcknowledgedByApp: false)
        func acknowledge(_ life: PlayLife) -> [String: Any]? {
            bundle.play.now = life.tokens[0].history[0].at
            let body = #"{"externalAccountIds":{"obfuscatedAccountId":"user-14","obfuscatedProfileId":"child"}}"#
            let token = life.tokens[0].token
            _ = bundle.call("POST", "purchases/subscriptions//tokens/\(token):acknowledge", body: body)
            return bundle.subscription(token)?.json["externalAccountIdentifiers"] as? [String: Any]
        }

        let inside = acknowledge(bundle.life)
        let outside = acknowledge(bundle.story.subscriptions[1])

        let own = bundle.life.customer.account.obfuscatedAccountId
        #expect(inside?["obfuscatedExternalAccountId"] as? String == own)
        #expect(outside?["obfuscatedExternalAccountId"] as? String == "user-14")
        #expect(outside?["obfuscatedExternalProfileId"] as? String == "child")
        #expect(bundle.play.acknowledgements.map(\.account.obfuscatedAccountId) == ["user-14", "user-14"])
    }

    @Test("a consumption acknowledges a one-time purchase")
    func oneTime() throws {
        let bundle = try PlayBundle([.oneTimePurchase], isAcknowledgedByApp: false)
        let life = bundle.story.oneTimePurchases[1]
        bundle.play.now = life.history[0].at

        let response = bundle.call("POST", "purchases/products/coins/tokens/\(life.token):consume")

        #expect(response?.status == 204)
        #expect(bundle.story.oneTimePurchases[1].acknowledgedAt == bundle.play.now)
        #expect(bundle.story.oneTimePurchases[1].voids.allSatisfy { $0.reason != .unacknowledged })
    }
}
