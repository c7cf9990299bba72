import Encoding
import Foundation
import Simulation

let plusMonthly = PlayPlan(.plus, .monthly)
let premiumMonthly = PlayPlan(.premium, .monthly)
let rendering = PlayRendering(packageName: "com.example.magazine")

/// A subscription on Google Play to script by hand.
func newPlayLife(
    _ terms: PlayTerms = PlayTerms(graceDays: 7), account: String? = "user-1", isAcknowledgedByApp: Bool = true,
    acknowledged: [String: Instant] = [:]
) -> PlayLife {
    PlayLife(
        customer: PlayCustomer(
            storefront: Storefront.all[0], account: PlayAccount(obfuscatedAccountId: account)),
        identifiers: PlayIdentifiers(seed: 7, story: 3, life: 0), terms: terms,
        isAcknowledgedByApp: isAcknowledgedByApp, acknowledged: acknowledged)
}

extension PlayLife {
    func isActive(_ date: String) -> Bool { key.access.isActive(at: day(date)) }

    /// Whether access begins at the first date and ends at the second one, to the millisecond.
    func isActive(from start: Instant, to end: Instant) -> Bool {
        !key.access.isActive(at: start.advanced(byMilliseconds: -1)) && key.access.isActive(at: start)
            && key.access.isActive(at: end.advanced(byMilliseconds: -1)) && !key.access.isActive(at: end)
    }

    func status(_ date: String) -> PlayStatus? { key.status(at: day(date)) }

    /// The numbers of the messages about subscriptions, in their order; `void` for a void.
    var sent: [String] {
        messages.map { message in
            switch message.content {
            case .subscription(let type, _): String(type.rawValue)
            case .voided: "void"
            case .refundReview: "review"
            case .oneTime(let type, _): "one-time \(type.rawValue)"
            case .test: "test"
            }
        }
    }

    /// The time from one message to the next, in milliseconds.
    var gaps: [Int64] {
        zip(messages, messages.dropFirst()).map { $1.eventTime.milliseconds - $0.eventTime.milliseconds }
    }

    /// The answer of subscriptionsv2 about a token, counted from 0 in the order of purchase.
    func answer(_ date: String, token: Int = 0, _ change: (inout PlayRendering) -> Void = { _ in }) -> PlayJSON {
        answer(at: day(date), token: token, change)
    }

    func answer(at instant: Instant, token: Int = 0, _ change: (inout PlayRendering) -> Void = { _ in }) -> PlayJSON {
        var rendering = rendering
        change(&rendering)
        return PlayJSON(subscriptionV2(tokens[token], at: instant, rendering))
    }

    func oldAnswer(_ date: String, token: Int = 0) -> PlayJSON {
        PlayJSON(subscription(tokens[token], at: day(date), rendering))
    }
}

/// An answer as a JSON object; empty if there is none.
struct PlayJSON {
    let json: [String: Any]
    let text: String

    init(_ bytes: [UInt8]?) {
        text = String(decoding: bytes ?? [], as: UTF8.self)
        json = (try? JSONSerialization.jsonObject(with: Data(bytes ?? []))) as? [String: Any] ?? [:]
    }

    /// Without `SUBSCRIPTION_STATE_`.
    var state: String? { self["subscriptionState"].map { String($0.dropFirst(19)) } }
    var keys: Set<String> { Set(json.keys) }
    var items: [[String: Any]] { json["lineItems"] as? [[String: Any]] ?? [] }
    var expiry: String? { items.first?["expiryTime"] as? String }
    var order: String? { items.first?["latestSuccessfulOrderId"] as? String }
    var renewal: [String: Any] { items.first?["autoRenewingPlan"] as? [String: Any] ?? [:] }

    subscript(key: String) -> String? { json[key] as? String }

    /// The first member of the cancellation's object.
    var cancellation: String? { (json["canceledStateContext"] as? [String: Any])?.keys.first }
}
