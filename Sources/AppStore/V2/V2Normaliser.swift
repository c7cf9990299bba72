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
        let occurredAt = body.instant("signedDate") ?? (EarlierReading.isInForce ? nil : notification.signedDate)
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
        var renewal = notification.renewal.flatMap { reader.renewal($0, base: "data.signedRenewalInfo") }
        let transaction = notification.transaction.flatMap {
            reader.transaction($0, base: "data.signedTransactionInfo", of: renewal?.originalTransactionId)
        }
        if uuid == nil { body.note("notificationUUID", "is missing or blank") }
        noteGraceWithoutEnd(subtype, renewal)
        let ended = endedStatus(type, transaction, renewal)
        if let transaction, renewal == nil, ended != nil || isRunning(transaction), !EarlierReading.isInForce {
            // A status counts without renewal info: what a missing part would have said neither gives access nor ends it.
            renewal = RenewalInfo(originalTransactionId: transaction.originalTransactionId)
            renewal?.signedDate = transaction.signedDate
        }
        if let ended { renewal?.endedStatus = ended }
        return Event(
            source: source, environment: claim.environment ?? .unknown, app: claim.bundleId, type: type,
            subtype: subtype, kind: V2Kind.kind(of: type, subtype), dedupeKey: dedupeKey(uuid),
            notificationUUID: uuid, occurredAt: occurredAt, transactions: [transaction].compactMap { $0 },
            renewals: [renewal].compactMap { $0 }, details: CanonicalJSON(members: details),
            defects: body.defects + reader.defects, unknownFields: reader.unknownFields)
    }

    private mutating func noteGraceWithoutEnd(_ subtype: String?, _ renewal: RenewalInfo?) {
        guard subtype == "GRACE_PERIOD", let renewal, renewal.gracePeriodExpiresDate == nil else { return }
        // The App Store has sent this in production. Grace without an end would be access for ever.
        reader.defects.append(
            Defect(
                path: "data.signedRenewalInfo.gracePeriodExpiresDate",
                problem: "is missing although grace has begun, so that it gives no access"))
    }

    /// The status, if it says that access is over and an end that is stated with it lies ahead. Records that, and a status
    /// that this version does not know.
    ///
    /// The status is that of the time of signing. The type names an event, which may have been overtaken since, so it counts
    /// only if there is no status.
    private mutating func endedStatus(
        _ type: String?, _ transaction: Transaction?, _ renewal: RenewalInfo?
    ) -> Int? {
        let field = UnknownValue.Field.subscriptionStatus
        let text = statedStatus
        let status: Int
        if let text, field.known.contains(text) {
            status = Int(text) ?? 0
        } else {
            if let text {
                reader.defects.append(Defect(path: "data.status", problem: UnknownValue.problem(text, of: field)))
            }
            status = type == "EXPIRED" ? 2 : type == "GRACE_PERIOD_EXPIRED" ? RenewalInfo.retryStatus : 0
        }
        guard [2, RenewalInfo.retryStatus, 5].contains(status), transaction?.revocationDate == nil else { return nil }
        if status != RenewalInfo.retryStatus, let transaction, !transaction.isUpgraded,
            let end = transaction.expiresDate, let signed = transaction.signedDate, signed < end
        {
            reader.defects.append(
                Defect(path: "data.status", problem: "says that access is over, and the transaction ends later"))
            return status
        }
        // A customer who switches renewal off ends grace at once.
        guard let renewal, renewal.autoRenewStatus != false, let signed = renewal.signedDate else { return nil }
        guard let end = renewal.gracePeriodExpiresDate else {
            // An earlier body may have stated a later end.
            return type == "GRACE_PERIOD_EXPIRED" ? status : nil
        }
        guard signed < end else { return nil }
        reader.defects.append(
            Defect(path: "data.status", problem: "says that grace is over, and its stated end is later"))
        return status
    }

    /// The status as text, which is a number or a string; nil if there is none.
    private var statedStatus: String? {
        let stated = notification.notification.payload.root["data"]?["status"]
        return stated.flatMap { value in value.int64.map { String($0) } ?? value.string }
    }

    /// True if the status says that the subscription runs, and the end that is stated with it agrees.
    private func isRunning(_ transaction: Transaction) -> Bool {
        guard statedStatus == String(RenewalInfo.activeStatus), transaction.revocationDate == nil,
            !transaction.isUpgraded,
            let end = transaction.expiresDate, let signed = transaction.signedDate
        else { return false }
        return signed < end
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
