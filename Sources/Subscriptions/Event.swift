/// One notification, normalised: the same words and units whichever format it came in.
package struct Event: Sendable, Hashable {
    package var source: Source
    package var environment: Environment
    /// The bundle id that the body names; nil when it names none.
    package var app: String?
    /// As Apple spells it, also when this version does not know it; nil when the body's value was unreadable.
    package var type: String?
    package var subtype: String?
    package var kind: Kind
    package var dedupeKey: DedupeKey
    /// Equal for V1 notifications that say the same, whatever their receipts; 32 bytes. Nil for other sources.
    package var fingerprint: [UInt8]?
    /// The line that the body names where it has no transactions and renewals that do.
    package var namedLine: String?
    /// Apple's own id of the notification; V1 has none.
    package var notificationUUID: String?
    /// When the event happened by the body's own dates; nil when it has none.
    package var occurredAt: Instant?
    package var transactions: [Transaction]
    package var renewals: [RenewalInfo]
    /// What else a signed notification says: an object of its fields that have no place above. Nil for V1.
    package var details: CanonicalJSON?
    /// What a backend states about one of its customers. Nil for Apple's notifications.
    package var link: LinkStatement?
    package var defects: [Defect]
    /// Paths of fields that this version has no word for. Their values are kept.
    package var unknownFields: [String]

    package init(
        source: Source, environment: Environment, app: String?, type: String?, subtype: String?, kind: Kind,
        dedupeKey: DedupeKey, fingerprint: [UInt8]? = nil, namedLine: String? = nil, notificationUUID: String? = nil,
        occurredAt: Instant?, transactions: [Transaction], renewals: [RenewalInfo], details: CanonicalJSON? = nil,
        defects: [Defect], unknownFields: [String] = []
    ) {
        self.source = source
        self.environment = environment
        self.app = app
        self.type = type
        self.subtype = subtype
        self.kind = kind
        self.dedupeKey = dedupeKey
        self.fingerprint = fingerprint
        self.namedLine = namedLine
        self.notificationUUID = notificationUUID
        self.occurredAt = occurredAt
        self.transactions = transactions
        self.renewals = renewals
        self.details = details
        self.defects = defects
        self.unknownFields = unknownFields
    }
}

extension Event {
    /// Longest time between a V1 notification and its repeat: Apple's last attempt comes 78 hours after the first.
    package static let repeatAgeMax = Duration.seconds(4 * 24 * 3600)

    /// Whether the dedupe key is Apple's or the backend's own id of this one event. V1 has none: its key is the digest
    /// of the stored body, and a body with a stored key is a repeat only within ``repeatAgeMax``, and only while no
    /// other event about one of its ``lines`` was stored.
    package var hasUniqueKey: Bool { source != .appleV1 }

    /// Every line that the event is about, by its original transaction id.
    package var lines: Set<ExactText> {
        var lines = Set(transactions.map { ExactText($0.originalTransactionId) })
        for renewal in renewals { lines.insert(ExactText(renewal.originalTransactionId)) }
        for key in link?.links ?? [] where key.kind == .subscription { lines.insert(key.id) }
        if lines.isEmpty, let namedLine { lines.insert(ExactText(namedLine)) }
        return lines
    }
}

/// The wire format that an event came in.
package enum Source: String, Sendable, Hashable, CaseIterable {
    case appleV1 = "apple-v1"
    case appleV2 = "apple-v2"
    /// The owner's own backend, over the private listener.
    case backend
}

/// What happened, in one word for all sources. For people and reports: access is decided by facts alone.
package enum Kind: String, Sendable, Hashable, CaseIterable {
    case purchase
    case renewal
    case recovery
    case renewalFailure = "renewal_failure"
    case planChange = "plan_change"
    case autoRenewChange = "auto_renew_change"
    /// An offer for the running product was redeemed.
    case offer
    /// The developer moved a renewal date.
    case `extension`
    case extensionReport = "extension_report"
    case graceEnd = "grace_end"
    case expiration
    case refund
    case refundDeclined = "refund_declined"
    case refundReversal = "refund_reversal"
    case revoke
    case priceConsent = "price_consent"
    case priceChange = "price_change"
    case metadataUpdate = "metadata_update"
    case migration
    case consumptionRequest = "consumption_request"
    case externalPurchase = "external_purchase"
    case consentRescinded = "consent_rescinded"
    case test
    /// A backend states which purchases belong to a customer.
    case link
    /// A type that this version has no word for. Its facts count all the same.
    case other
}

/// Identifies a notification within its stream: equal keys are one notification sent again. For V1 see
/// ``Event/hasUniqueKey``.
package struct DedupeKey: Sendable, Hashable {
    /// A SHA-256 of 32 bytes, or a UUID of 16.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Lower-case hexadecimal digits, two a byte.
    package var hexadecimal: String {
        String(unsafeUninitializedCapacity: bytes.count * 2) { buffer in
            for (index, byte) in bytes.enumerated() {
                buffer[index * 2] = Self.digit(byte >> 4)
                buffer[index * 2 + 1] = Self.digit(byte & 15)
            }
            return bytes.count * 2
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }
}

/// A field that could not be read as what it should be. The rest of its notification counts.
package struct Defect: Sendable, Hashable {
    /// Where, as in `unified_receipt.latest_receipt_info[2].expires_date_ms`.
    package let path: String
    /// What is wrong with it, never quoting the value.
    package let problem: String

    package init(path: String, problem: String) {
        self.path = path
        self.problem = problem
    }
}

/// What the log accepts: an event of a known stream, with the bytes that prove it.
///
/// Only types whose values come out of a check of their origin conform, so that unproven bytes have no way into
/// the log.
package protocol ProvenEvent: Sendable {
    var stream: StreamKey { get }
    var event: Event { get }
    /// The body as it arrived, less its secrets.
    var body: [UInt8] { get }
    /// SHA-256 of the body.
    var bodyDigest: [UInt8] { get }
    /// Nil for what is not signed.
    var chain: SigningChain? { get }
}

/// The certificates behind a signed event, as they were known when it was taken.
package struct SigningChain: Sendable, Hashable {
    /// Whether the issuer had taken them back. What it had is not taken at all.
    package enum Revocation: String, Sendable {
        /// Nobody asks.
        case off
        /// Asked, and not answered yet.
        case pending
        case good
        /// Asked, and no answer to be had.
        case unknown
    }

    /// SHA-256 of the certificates' digests, leaf first.
    package let id: [UInt8]
    package let revocation: Revocation

    package init(id: [UInt8], revocation: Revocation) {
        self.id = id
        self.revocation = revocation
    }
}
