import AppStore
import Encoding
import Foundation
import Subscriptions
import Testing

/// JSON whose members keep their order and may be repeated.
indirect enum JSON: Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral, ExpressibleByStringInterpolation
{
    case text(String)
    /// Written unchanged.
    case raw(String)
    case array([JSON])
    case object([(String, JSON)])

    init(stringLiteral value: String) { self = .text(value) }
    init(integerLiteral value: Int) { self = .raw(String(value)) }
    init(booleanLiteral value: Bool) { self = .raw(String(value)) }
    init(nilLiteral: ()) { self = .raw("null") }
    init(arrayLiteral elements: JSON...) { self = .array(elements) }
    init(dictionaryLiteral elements: (String, JSON)...) { self = .object(elements) }

    var written: String {
        switch self {
        case .text(let text): "\"\(text)\""
        case .raw(let raw): raw
        case .array(let elements): "[" + elements.map(\.written).joined(separator: ", ") + "]"
        case .object(let members):
            "{" + members.map { "\"\($0)\": \($1.written)" }.joined(separator: ", ") + "}"
        }
    }

    var bytes: [UInt8] { Array(written.utf8) }

    subscript(key: String) -> JSON? {
        get {
            guard case .object(let members) = self else { return nil }
            return members.last { $0.0 == key }?.1
        }
        set {
            guard case .object(var members) = self else { return }
            if let newValue {
                if let index = members.lastIndex(where: { $0.0 == key }) {
                    members[index].1 = newValue
                } else {
                    members.append((key, newValue))
                }
            } else {
                members.removeAll { $0.0 == key }
            }
            self = .object(members)
        }
    }

    func with(_ changes: KeyValuePairs<String, JSON>) -> JSON {
        var copy = self
        for (key, value) in changes { copy[key] = value }
        return copy
    }

    func without(_ keys: String...) -> JSON {
        var copy = self
        for key in keys { copy[key] = nil }
        return copy
    }
}

let testBundle = "com.example.magazine"
let testSecret = "0123456789abcdef0123456789abcdef"
let testSubscription = "1000000000000001"
let monthly = "com.example.magazine.monthly"
let premium = "com.example.magazine.premium"

func day(_ text: String) -> Instant {
    Instant(iso8601: text)!
}

func milliseconds(_ text: String) -> JSON {
    .text(String(day(text).milliseconds))
}

/// `2019-11-08 08:13:55 Etc/GMT`
func gmt(_ text: String) -> JSON {
    .text(day(text).description.prefix(19).replacingOccurrences(of: "T", with: " ") + " Etc/GMT")
}

/// An element of `unified_receipt.latest_receipt_info`, iOS 7 style.
func newRow(
    _ id: String, _ start: String, _ end: String, product: String = monthly, subscription: String = testSubscription
) -> JSON {
    [
        "quantity": "1", "product_id": .text(product), "transaction_id": .text(id),
        "original_transaction_id": .text(subscription),
        "purchase_date": gmt(start), "purchase_date_ms": milliseconds(start),
        "purchase_date_pst": "unread America/Los_Angeles",
        "original_purchase_date": gmt(start), "original_purchase_date_ms": milliseconds(start),
        "original_purchase_date_pst": "unread America/Los_Angeles",
        "expires_date": gmt(end), "expires_date_ms": milliseconds(end),
        "expires_date_pst": "unread America/Los_Angeles",
        "web_order_line_item_id": .text("9\(id)"), "is_trial_period": "false", "is_in_intro_offer_period": "false",
        "subscription_group_identifier": "20000001",
    ]
}

/// `latest_receipt_info` of a body before March 2021, iOS 6 style.
func oldRow(
    _ id: String, _ start: String, _ end: String, product: String = monthly, subscription: String = testSubscription
) -> JSON {
    newRow(id, start, end, product: product, subscription: subscription)
        .with(["bid": .text(testBundle), "bvrs": "1", "expires_date": milliseconds(end)])
        .with(["expires_date_formatted": gmt(end), "expires_date_formatted_pst": "unread America/Los_Angeles"])
        .without("expires_date_ms", "expires_date_pst")
}

func cancelled(_ row: JSON, _ date: String, reason: String = "0") -> JSON {
    row.with([
        "cancellation_date": gmt(date), "cancellation_date_ms": milliseconds(date),
        "cancellation_date_pst": "unread America/Los_Angeles", "cancellation_reason": .text(reason),
    ])
}

/// An element of `unified_receipt.pending_renewal_info`.
func pending(autoRenew: String = "1", next: String = monthly, subscription: String = testSubscription) -> JSON {
    [
        "auto_renew_product_id": .text(next), "original_transaction_id": .text(subscription),
        "product_id": .text(monthly),
        "auto_renew_status": .text(autoRenew),
    ]
}

/// A body as sent since March 2021.
func newBody(
    _ type: String, rows: [JSON], pending: [JSON] = [pending()], environment: String = "PROD"
) -> JSON {
    [
        "notification_type": .text(type), "environment": .text(environment), "password": .text(testSecret),
        "bid": .text(testBundle), "bvrs": "1", "auto_renew_product_id": .text(monthly), "auto_renew_status": "true",
        "unified_receipt": [
            "status": 0, "environment": environment == "PROD" ? "Production" : "Sandbox",
            "latest_receipt": "cGxhaW5seSBhIHRlc3QgcmVjZWlwdA==", "latest_receipt_info": .array(rows),
            "pending_renewal_info": .array(pending),
        ],
    ]
}

/// A body as sent before November 2019.
func oldBody(_ type: String, row: JSON?, expired: Bool = false, autoRenew: String = "true") -> JSON {
    let body: JSON = [
        "notification_type": .text(type), "environment": "PROD", "password": .text(testSecret),
        "auto_renew_product_id": .text(monthly), "auto_renew_status": .text(autoRenew),
    ]
    guard let row else { return body }
    return body.with([
        expired ? "latest_expired_receipt" : "latest_receipt": "cGxhaW5seSBhIHRlc3QgcmVjZWlwdA==",
        expired ? "latest_expired_receipt_info" : "latest_receipt_info": row,
    ])
}

extension JSON {
    /// Changes the first row of the unified receipt.
    func withRow(_ changes: KeyValuePairs<String, JSON>) -> JSON {
        guard let unified = self["unified_receipt"], case .array(var rows)? = unified["latest_receipt_info"] else {
            return self
        }
        rows[0] = rows[0].with(changes)
        return with(["unified_receipt": unified.with(["latest_receipt_info": .array(rows)])])
    }

    /// Changes the first element of pending renewal info.
    func withPending(_ changes: KeyValuePairs<String, JSON>) -> JSON {
        guard let unified = self["unified_receipt"], case .array(var rows)? = unified["pending_renewal_info"] else {
            return self
        }
        rows[0] = rows[0].with(changes)
        return with(["unified_receipt": unified.with(["pending_renewal_info": .array(rows)])])
    }

    func withUnified(_ changes: KeyValuePairs<String, JSON>) -> JSON {
        with(["unified_receipt": (self["unified_receipt"] ?? [:]).with(changes)])
    }

    /// The decoded event. Events with the same content in different spellings are equal, since their key is the
    /// fingerprint, not the digest of the body.
    func event(receivedAt: Instant = day("2026-01-01")) throws -> Event {
        var event = try AppleNotification(decoding: bytes).event(receivedAt: receivedAt, bodyDigest: [])
        event.dedupeKey = DedupeKey(bytes: event.fingerprint ?? [])
        return event
    }
}

func fixture(_ name: String) throws -> [UInt8] {
    let url = try #require(Bundle.module.url(forResource: name, withExtension: "json", subdirectory: "Fixtures"))
    return Array(try Data(contentsOf: url))
}

func event(fixture name: String, receivedAt: Instant = day("2026-01-01")) throws -> Event {
    try AppleNotification(decoding: fixture(name)).event(receivedAt: receivedAt)
}

/// Folds events in the order of their arrival into one subscription.
func fold(_ events: [Event], subscription: String = testSubscription) -> Subscription {
    var facts = SubscriptionFacts(originalTransactionId: subscription)
    for (index, event) in events.enumerated() {
        facts.fold(
            event.facts, occurredAt: event.occurredAt,
            receivedAt: day("2026-01-01").advanced(byMilliseconds: Int64(index)), position: Int64(index + 1))
    }
    return Subscription(facts)
}
