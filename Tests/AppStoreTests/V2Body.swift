import AppStore
import Crypto
import Foundation
import Simulation
import Subscriptions
import Testing

let testAppleId = 1_234_567_890

/// A notification before signing: its payloads in plain JSON.
struct V2Body: Sendable {
    var payload: JSON
    var transaction: JSON?
    var renewal: JSON?
    var appTransaction: JSON?

    /// A notification with `data`.
    ///
    /// All parts are signed at the same time, unless a part has its own `signedDate`, and have the same environment,
    /// unless a test changes it afterwards. Equal contents have equal UUIDs.
    init(
        _ type: String, _ subtype: String? = nil, at date: String, _ transaction: JSON? = nil,
        _ renewal: JSON? = nil, environment: String = "Production", data: KeyValuePairs<String, JSON> = [:]
    ) {
        func stamped(_ part: JSON) -> JSON {
            let dated = part["signedDate"] == nil ? part.with(["signedDate": ms(date)]) : part
            return dated.with(["environment": .text(environment)])
        }
        self.transaction = transaction.map(stamped)
        self.renewal = renewal.map(stamped)
        let subject: JSON = [
            "appAppleId": .raw(String(testAppleId)), "bundleId": .text(testBundle), "bundleVersion": "42",
            "environment": .text(environment),
        ]
        payload = Self.outer(
            type, subtype, at: date, "data", subject.with(data),
            seed: (transaction?.written ?? "") + (renewal?.written ?? "") + environment)
    }

    /// A notification about something other than `data`.
    init(
        _ type: String, _ subtype: String? = nil, at date: String, about key: String, _ subject: JSON,
        appTransaction: JSON? = nil
    ) {
        self.appTransaction = appTransaction
        payload = Self.outer(type, subtype, at: date, key, subject, seed: subject.written)
    }

    private static func outer(
        _ type: String, _ subtype: String?, at date: String, _ key: String, _ subject: JSON, seed: String
    ) -> JSON {
        var payload: JSON = ["notificationType": .text(type)]
        payload["subtype"] = subtype.map { .text($0) }
        return payload.with([
            "notificationUUID": .text(uuid(of: type + (subtype ?? "") + date + seed)), "version": "2.0",
            "signedDate": ms(date), key: subject,
        ])
    }

    /// The body as Apple sends it.
    ///
    /// - Parameter inner: Signs the inner parts; the outer signer if nil.
    func signed(by signer: JWSSigner = .standard, inner: JWSSigner? = nil) -> [UInt8] {
        envelope(jws(by: signer, inner: inner))
    }

    /// The signed text alone.
    func jws(by signer: JWSSigner = .standard, inner: JWSSigner? = nil) -> [UInt8] {
        signer.sign(filled { (inner ?? signer).sign($0.bytes) }.bytes)
    }

    /// Has the form of Apple's body, without a valid signature. Fast to make and to decode.
    var unsigned: [UInt8] {
        envelope(unsignedJWS(filled { unsignedJWS($0) }))
    }

    /// The payload with its parts inserted.
    func filled(_ sign: (JSON) -> [UInt8]) -> JSON {
        var whole = payload
        func place(_ part: JSON?, _ subject: String, _ key: String) {
            guard let part else { return }
            whole[subject, key] = .text(String(decoding: sign(part), as: UTF8.self))
        }
        place(transaction, "data", "signedTransactionInfo")
        place(renewal, "data", "signedRenewalInfo")
        place(appTransaction, "appData", "signedAppTransactionInfo")
        return whole
    }

    func event() throws -> Event {
        try AppleNotification(decoding: unsigned).event(receivedAt: day("2026-01-01"))
    }

    func changing(_ change: (inout V2Body) -> Void) -> V2Body {
        var copy = self
        change(&copy)
        return copy
    }
}

extension JSON {
    /// A member of a member.
    subscript(outer: String, inner: String) -> JSON? {
        get { self[outer]?[inner] }
        set {
            var object = self[outer] ?? [:]
            object[inner] = newValue
            self[outer] = object
        }
    }
}

extension JSON: CustomTestStringConvertible {
    var testDescription: String { written }
}

// MARK: - Parts

/// Epoch milliseconds as a number.
func ms(_ text: String) -> JSON {
    .raw(String(day(text).milliseconds))
}

/// The payload of `signedTransactionInfo`: a period of a subscription.
///
/// - Parameter reason: `PURCHASE` for actions of the customer, such as an upgrade or a new subscription; `RENEWAL` for
///   what the App Store did itself. If nil, it depends on whether the id is the first of its subscription.
func v2Row(
    _ id: String, _ start: String, _ end: String, product: String = monthly, subscription: String = testSubscription,
    reason: String? = nil
) -> JSON {
    [
        "transactionId": .text(id), "originalTransactionId": .text(subscription), "webOrderLineItemId": .text("9\(id)"),
        "bundleId": .text(testBundle), "productId": .text(product), "subscriptionGroupIdentifier": "20000001",
        "purchaseDate": ms(start), "originalPurchaseDate": ms("2018-02-20"), "expiresDate": ms(end), "quantity": 1,
        "type": "Auto-Renewable Subscription", "inAppOwnershipType": "PURCHASED", "storefront": "JPN",
        "storefrontId": "143462", "transactionReason": .text(reason ?? (id == subscription ? "PURCHASE" : "RENEWAL")),
        "price": 480_000,
        "currency": "JPY", "appTransactionId": "704000000000000001",
    ]
}

/// The payload of `signedTransactionInfo`: a one-time purchase.
func v2Purchase(_ id: String, _ start: String, type: String, quantity: Int = 1) -> JSON {
    [
        "transactionId": .text(id), "originalTransactionId": .text(id), "bundleId": .text(testBundle),
        "productId": "com.example.magazine.extra", "purchaseDate": ms(start), "originalPurchaseDate": ms(start),
        "quantity": .raw(String(quantity)), "type": .text(type), "inAppOwnershipType": "PURCHASED",
        "storefront": "JPN", "storefrontId": "143462", "transactionReason": "PURCHASE", "price": 160_000,
        "currency": "JPY",
    ]
}

/// The payload of `signedRenewalInfo`.
func v2Renewal(
    autoRenew: Bool = true, next: String = monthly, current: String = monthly, subscription: String = testSubscription
) -> JSON {
    [
        "originalTransactionId": .text(subscription), "productId": .text(current), "autoRenewProductId": .text(next),
        "autoRenewStatus": autoRenew ? 1 : 0, "recentSubscriptionStartDate": ms("2018-02-20"),
    ]
}

/// The payload of `signedAppTransactionInfo`. Its environment has a different key: `receiptType`.
func v2AppTransaction(at date: String, environment: String = "Production") -> JSON {
    [
        "receiptType": .text(environment), "appAppleId": .raw(String(testAppleId)), "bundleId": .text(testBundle),
        "applicationVersion": "42", "versionExternalIdentifier": 860_000_001, "receiptCreationDate": ms(date),
        "originalPurchaseDate": ms("2018-02-20"), "originalApplicationVersion": "1",
        "deviceVerification": "ZGV2aWNlIHZlcmlmaWNhdGlvbg==",
        "deviceVerificationNonce": "48ccfa42-7431-4f22-9908-7e88983e105a", "appTransactionId": "704000000000000001",
        "originalPlatform": "iOS",
    ]
}

func rescinded(at date: String, environment: String = "Production") -> V2Body {
    let subject: JSON = [
        "appAppleId": .raw(String(testAppleId)), "bundleId": .text(testBundle), "environment": .text(environment),
    ]
    return V2Body(
        "RESCIND_CONSENT", at: date, about: "appData", subject,
        appTransaction: v2AppTransaction(at: date, environment: environment))
}

extension JSON {
    func refunded(_ date: String, type: String? = nil, reason: Int = 0) -> JSON {
        var copy = with(["revocationDate": ms(date), "revocationReason": .raw(String(reason))])
        copy["revocationType"] = type.map { .text($0) }
        return copy
    }

    /// Renewal info while the App Store retries the charge.
    func failing(graceUntil: String? = nil) -> JSON {
        var copy = with(["isInBillingRetryPeriod": true, "expirationIntent": 2])
        copy["gracePeriodExpiresDate"] = graceUntil.map { ms($0) }
        return copy
    }
}

// MARK: - Texts

extension JWSSigner {
    static let standard = JWSSigner(.standard)
}

func envelope(_ jws: [UInt8]) -> [UInt8] {
    Array("{\"signedPayload\":\"".utf8) + jws + Array("\"}".utf8)
}

func unsignedJWS(_ payload: JSON) -> [UInt8] {
    let segments = [Array(#"{"alg":"ES256","x5c":[]}"#.utf8), payload.bytes, [UInt8](repeating: 7, count: 64)]
    return Array(segments.map(base64URL).joined(separator: ".".utf8))
}

/// A UUID derived from a text.
func uuid(of text: String) -> String {
    let digits = SHA256.hash(data: Array(text.utf8)).prefix(16).map { byte in
        String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
    }
    let groups = [digits[0..<4], digits[4..<6], digits[6..<8], digits[8..<10], digits[10..<16]]
    return groups.map { $0.joined() }.joined(separator: "-")
}
