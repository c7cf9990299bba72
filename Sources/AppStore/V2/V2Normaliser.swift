import Crypto
import Encoding
import Subscriptions

extension V2Notification {
    /// Returns the notification as a normalised event.
    ///
    /// - Parameter source: `appleHistory` if the notification was fetched and not posted.
    package func event(source: EventSource = .appleV2) -> Event {
        var normaliser = V2Normaliser(self)
        return normaliser.event(source)
    }
}

/// Reads one notification and collects its defects and unknown fields. Use it once.
private struct V2Normaliser {
    private let notification: V2Notification
    private var reader = SignedPartReader()
    private var details: [(key: String, value: CanonicalJSON)] = []

    init(_ notification: V2Notification) {
        self.notification = notification
    }

    mutating func event(_ source: EventSource) -> Event {
        var body = JSONFields(notification.notification.payload.root)
        let type = body.text("notificationType")
        if type == nil { body.note("notificationType", "is missing or blank") }
        let subtype = body.text("subtype")
        let uuid = body.text("notificationUUID")
        let occurredAt = body.instant("signedDate")
        if occurredAt == nil { body.note("signedDate", "is missing or unreadable") }
        let claim = notification.claim
        if claim.environment == nil || claim.environment == .unknown {
            body.note("environment", "is none that Apple uses")
        }
        part(
            "data", of: &body, reading: ["bundleId", "environment"],
            signed: ["signedTransactionInfo", "signedRenewalInfo"])
        part(
            "appData", of: &body, reading: ["bundleId", "environment"], signed: ["signedAppTransactionInfo"])
        for key: StaticString in ["summary", "externalPurchaseToken", "unclaimInfo"] {
            part(key, of: &body, reading: [])
        }
        if let appTransaction = notification.appTransaction {
            details.append(("appTransaction", reader.appTransaction(appTransaction)))
        }
        details += reader.keep(body.rest, base: "")
        let renewal = notification.renewal.flatMap { reader.renewal($0, base: "data.signedRenewalInfo") }
        let transaction = notification.transaction.flatMap {
            reader.transaction($0, base: "data.signedTransactionInfo", of: renewal?.originalTransactionId)
        }
        if uuid == nil { body.note("notificationUUID", "is missing or blank") }
        noteContradictions(subtype, transaction, renewal)
        return Event(
            source: source, environment: claim.environment ?? .unknown, app: claim.bundleId, type: type,
            subtype: subtype, kind: V2Kind.kind(of: type, subtype), dedupeKey: dedupeKey(uuid),
            notificationUUID: uuid, occurredAt: occurredAt, transactions: [transaction].compactMap { $0 },
            renewals: [renewal].compactMap { $0 }, details: CanonicalJSON(members: details),
            defects: body.defects + reader.defects, unknownFields: reader.unknownFields)
    }

    /// Records what the notification says of access and its dates do not.
    private mutating func noteContradictions(_ subtype: String?, _ transaction: Transaction?, _ renewal: RenewalInfo?) {
        if subtype == "GRACE_PERIOD", let renewal, renewal.gracePeriodExpiresDate == nil {
            // The App Store has sent this in production. Grace without an end would be access for ever.
            reader.defects.append(
                Defect(
                    path: "data.signedRenewalInfo.gracePeriodExpiresDate",
                    problem: "is missing although grace has begun, so that it gives no access"))
        }
        let status = notification.notification.payload.root["data"]?["status"]?.int64
        if let transaction, let end = transaction.expiresDate, let signed = transaction.signedDate, signed < end,
            status == 2 || status == 5, transaction.revocationDate == nil, !transaction.isUpgraded
        {
            reader.defects.append(
                Defect(path: "data.status", problem: "says that access is over, and the transaction ends later"))
        }
    }

    /// Stores an object of the notification as details, without the fields that are read elsewhere.
    ///
    /// - Parameters:
    ///   - read: Fields that are read elsewhere.
    ///   - signed: Fields that are read elsewhere and must be strings.
    private mutating func part(
        _ key: StaticString, of body: inout JSONFields, reading read: [StaticString], signed: [StaticString] = []
    ) {
        guard let value = body.raw(key) else { return }
        guard value.isObject else { return body.note(key, "is not an object") }
        var fields = JSONFields(value, base: key)
        for key in read { _ = fields.raw(key) }
        for key in signed {
            if let text = fields.raw(key), !text.isString { fields.note(key, "is not a signed text") }
        }
        let kept = reader.keep(fields.rest, base: "\(key).")
        if !kept.isEmpty { details.append((key.description, CanonicalJSON(members: kept))) }
        reader.defects += fields.defects
    }

    /// The bytes of the notification's UUID, or a SHA-256: of an id that is not a UUID, or of the signed text if there
    /// is no id.
    private func dedupeKey(_ uuid: String?) -> DedupeKey {
        guard let uuid else {
            return DedupeKey(bytes: Array(SHA256.hash(data: notification.notification.signedText)))
        }
        return DedupeKey(uuid: uuid) ?? DedupeKey(bytes: Array(SHA256.hash(data: Array(uuid.utf8))))
    }
}

extension DedupeKey {
    /// Nil unless the text is 32 hexadecimal digits, in either case, and four dashes.
    fileprivate init?(uuid: String) {
        let digits = uuid.utf8.filter { $0 != UInt8(ascii: "-") }
        guard uuid.utf8.count == 36, digits.count == 32,
            let bytes = digits.withUnsafeBufferPointer({ Hex.bytes($0, acceptsUpperCase: true) })
        else { return nil }
        self.init(bytes: bytes)
    }
}
