import Crypto
import Encoding
import Subscriptions

extension PushMessage {
    /// Returns the push as a normalised event. It has no facts, see ``DeveloperNotification/facts``, and its environment
    /// is unknown: a notification does not say whether the purchase is a test purchase.
    package func event() -> Event {
        var event = Event(
            source: .googleRTDN, environment: .unknown, app: packageName, type: typeName, subtype: nil, kind: kind,
            dedupeKey: dedupeKey, occurredAt: notification?.eventTime, transactions: [], renewals: [],
            details: details, defects: defects)
        // A push whose two spellings differ names nothing.
        if !isAmbiguous { event.namedSubscription = notification?.purchaseToken?.key }
        return event
    }

    private var typeName: String? {
        switch notification?.content {
        case .subscription(let type, _): type.name.isEmpty ? nil : type.name
        case .oneTimeProduct(let type, _, _): type.name.isEmpty ? nil : type.name
        case .voidedPurchase: "VOIDED_PURCHASE"
        case .pendingRefundReview: "PENDING_REFUND_REVIEW"
        case .test: "TEST"
        case .unknown, nil: nil
        }
    }

    private var kind: EventKind {
        switch notification?.content {
        case .subscription(let type, _): type.kind
        case .oneTimeProduct(let type, _, _): type.kind
        case .voidedPurchase: .refund
        case .pendingRefundReview: .consumptionRequest
        case .test: .test
        case .unknown, nil: .other
        }
    }

    private var details: CanonicalJSON? {
        var members: [(key: String, value: CanonicalJSON)] = []
        func add(_ key: String, _ text: String?) {
            guard let text else { return }
            var writer = JSONWriter()
            writer.value(text)
            if let document = try? JSONDocument(writer.bytes) {
                members.append((key: key, value: CanonicalJSON(document.root)))
            }
        }
        add("messageId", messageId)
        add("subscription", subscription)
        if let notification { members.append((key: "notification", value: notification.details)) }
        return members.isEmpty ? nil : CanonicalJSON(members: members)
    }

    /// SHA-256 of the message's id, which is the same for each delivery. Without one: of the purchase token, the type and
    /// the time of the event; without a readable notification, of the body.
    private var dedupeKey: DedupeKey {
        var hasher = SHA256()
        if let messageId {
            hasher.update(data: Array("message \(messageId)".utf8))
        } else if !isAmbiguous, let notification, let time = notification.eventTime, let typeName {
            let token = notification.purchaseToken?.text ?? ""
            hasher.update(data: Array("notification \(token) \(typeName) \(time.milliseconds)".utf8))
        } else {
            for slice in evidence.slices { hasher.update(data: slice) }
        }
        return DedupeKey(bytes: Array(hasher.finalize()))
    }
}
