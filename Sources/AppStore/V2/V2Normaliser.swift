import Crypto
import Encoding
import Subscriptions

extension V2Notification {
    /// Returns the notification as a normalised event.
    package func event() -> Event {
        var normaliser = V2Normaliser(self)
        return normaliser.event()
    }
}

/// Reads one notification and collects its defects and unknown fields. Use it once.
private struct V2Normaliser {
    private let notification: V2Notification
    private var defects: [Defect] = []
    private var unknownFields: [String] = []
    private var details: [(key: String, value: CanonicalJSON)] = []

    /// Known fields without a property of their own in an event.
    private static let knownDetails: Set<String> = Set(
        [
            ("", ["version"]),
            ("data.", ["appAppleId", "bundleVersion", "status", "consumptionRequestReason"]),
            ("data.signedTransactionInfo.", ["advancedCommerceInfo", "commitmentInfo"]),
            ("data.signedRenewalInfo.", ["advancedCommerceInfo", "commitmentInfo"]),
            (
                "summary.",
                [
                    "requestIdentifier", "environment", "bundleId", "appAppleId", "productId",
                    "storefrontCountryCodes", "succeededCount", "failedCount",
                ]
            ),
            (
                "externalPurchaseToken.",
                [
                    "externalPurchaseId", "tokenCreationDate", "appAppleId", "bundleId", "tokenExpirationDate",
                    "tokenType",
                ]
            ),
            ("appData.", ["appAppleId"]),
            (
                "appTransaction.",
                [
                    "appAppleId", "appTransactionId", "applicationVersion", "bundleId", "environment",
                    "originalApplicationVersion", "originalPlatform", "originalPurchaseDate", "preorderDate",
                    "receiptCreationDate", "receiptType", "signedDate", "versionExternalIdentifier",
                ]
            ),
        ].flatMap { base, names in names.map { base + $0 } })
    /// Fields that identify a device. They are not stored, since they prove nothing to a server.
    private static let deviceFields: Set<String> = ["deviceVerification", "deviceVerificationNonce"]

    init(_ notification: V2Notification) {
        self.notification = notification
    }

    mutating func event() -> Event {
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
        for key: StaticString in ["summary", "externalPurchaseToken"] { part(key, of: &body, reading: []) }
        if let appTransaction = notification.appTransaction {
            let members = appTransaction.payload.root.members.filter {
                !Self.deviceFields.contains($0.key.repairedString)
            }
            details.append(("appTransaction", CanonicalJSON(members: keep(members, base: "appTransaction."))))
        }
        details += keep(body.rest, base: "")
        let renewal = renewal()
        let transaction = transaction(subscription: renewal?.originalTransactionId)
        if uuid == nil { body.note("notificationUUID", "is missing or blank") }
        return Event(
            source: .appleV2, environment: claim.environment ?? .unknown, app: claim.bundleId, type: type,
            subtype: subtype, kind: V2Kind.kind(of: type, subtype), dedupeKey: dedupeKey(uuid),
            notificationUUID: uuid, occurredAt: occurredAt, transactions: [transaction].compactMap { $0 },
            renewals: [renewal].compactMap { $0 }, details: CanonicalJSON(members: details),
            defects: body.defects + defects, unknownFields: unknownFields)
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
        let kept = keep(fields.rest, base: "\(key).")
        if !kept.isEmpty { details.append((key.description, CanonicalJSON(members: kept))) }
        defects += fields.defects
    }

    /// Returns the fields in canonical form, and records the names of unknown ones.
    private mutating func keep(
        _ rest: [(key: JSONValue, value: JSONValue)], base: String
    ) -> [(key: String, value: CanonicalJSON)] {
        rest.map { key, value in
            let name = key.repairedString
            if !Self.knownDetails.contains(base + name) { unknownFields.append(base + name) }
            return (name, CanonicalJSON(value))
        }
    }

    private mutating func transaction(subscription: String?) -> Transaction? {
        guard let jws = notification.transaction else { return nil }
        var fields = JSONFields(jws.payload.root, base: "data.signedTransactionInfo")
        var transaction = fields.signedTransaction(of: subscription)
        if let type = transaction?.type, Transaction.ProductType(rawValue: type) == nil {
            fields.note("type", "is of no kind of product that this version knows")
        }
        let additional = keep(fields.rest, base: "data.signedTransactionInfo.")
        if !additional.isEmpty { transaction?.additional = CanonicalJSON(members: additional) }
        defects += fields.defects
        return transaction
    }

    private mutating func renewal() -> RenewalInfo? {
        guard let jws = notification.renewal else { return nil }
        var fields = JSONFields(jws.payload.root, base: "data.signedRenewalInfo")
        var renewal = fields.signedRenewal()
        let additional = keep(fields.rest, base: "data.signedRenewalInfo.")
        if !additional.isEmpty { renewal?.additional = CanonicalJSON(members: additional) }
        defects += fields.defects
        return renewal
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
