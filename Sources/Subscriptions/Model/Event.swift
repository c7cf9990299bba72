import Encoding

/// A normalised notification, answer of a store or statement of a backend or an operator, with the same names and units
/// for every source format.
package struct Event: Sendable, Hashable {
    package var source: EventSource
    package var environment: Environment
    /// The bundle id or package name in the body; nil if it has none.
    package var app: String?
    /// Apple's spelling, even if this version does not know the type; nil if the body's value was unreadable. Google's
    /// name of the type of a notification, or its number if this version does not know it.
    package var type: String?
    package var subtype: String?
    package var kind: EventKind
    package var dedupeKey: DedupeKey
    /// Equal for V1 notifications with the same content, regardless of their receipts; 32 bytes. Nil for other sources.
    package var fingerprint: [UInt8]?
    /// The subscription named at the top level of a V1 body, used if the event has no transactions or renewals.
    package var namedSubscription: String?
    /// Apple's own id of the notification; V1 has none.
    package var notificationUUID: String?
    /// When the event happened according to the body's dates; nil if it has none.
    package var occurredAt: Instant?
    package var transactions: [Transaction]
    package var renewals: [RenewalInfo]
    /// All other fields of a signed notification, as an object. Nil for V1, except for the subscription that a question
    /// names without a row of it.
    package var details: CanonicalJSON?
    /// The customer links that a backend sent. Nil for Apple's notifications.
    package var link: LinkStatement?
    /// The change at the store that an operator asks for. Nil for other sources.
    package var write: StoreWrite?
    /// The month that an operator closes or opens again. Nil for other events.
    package var closing: MonthClosing?
    /// What an operator erased from the log. Nil for other events.
    package var erasure: ErasureStatement?
    /// The seat that a backend gives to a customer or takes back. Nil for other events.
    package var seat: SeatStatement?
    /// The subscriptions whose Apple Account was deleted. Empty unless the App Store answered so.
    package var accountDeletions: [String] = []
    /// What Google reported about purchases. Empty for other stores, and for Google's notifications.
    package var purchases: [PurchaseFact] = []
    package var defects: [Defect]
    /// Paths of fields that this version does not know. Their values are kept.
    package var unknownFields: [String]

    package init(
        source: EventSource, environment: Environment, app: String?, type: String?, subtype: String?, kind: EventKind,
        dedupeKey: DedupeKey, fingerprint: [UInt8]? = nil, namedSubscription: String? = nil,
        notificationUUID: String? = nil,
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
        self.namedSubscription = namedSubscription
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

    /// Whether the dedupe key identifies this one event: Apple's or the backend's own id, the digest of an answer
    /// and its time, or that of signed data. V1 has no id: its key is the digest of the stored body, and a body with a stored key is a repeat
    /// only within ``repeatAgeMax``, and only while no other event about one of its ``subscriptions`` was stored.
    package var hasUniqueKey: Bool { source != .appleV1 }

    /// Every subscription that the event is about, by its original transaction id; for Google, every purchase, by its
    /// token.
    package var subscriptions: Set<ByteString> {
        var subscriptions = Set(transactions.map { ByteString($0.originalTransactionId) })
        for renewal in renewals { subscriptions.insert(ByteString(renewal.originalTransactionId)) }
        for id in accountDeletions { subscriptions.insert(ByteString(id)) }
        for purchase in purchases {
            subscriptions.insert(ByteString(purchase.purchaseToken))
            if let continued = purchase.continuedPurchaseToken { subscriptions.insert(ByteString(continued)) }
        }
        for key in link?.links ?? [] where key.kind == .subscription { subscriptions.insert(key.id) }
        if subscriptions.isEmpty, let namedSubscription { subscriptions.insert(ByteString(namedSubscription)) }
        return subscriptions
    }
}

/// The wire format of an event.
package enum EventSource: String, Sendable, Hashable, CaseIterable {
    case appleV1 = "apple-v1"
    case appleV2 = "apple-v2"
    /// A notification of version 2 that Apple's notification history had and that did not arrive.
    case appleHistory = "apple-history"
    /// An answer of verifyReceipt to a question about a receipt.
    case appleReceipt = "apple-receipt"
    /// Signed data that an app got from StoreKit 2 and its backend handed in.
    case appleDevice = "apple-device"
    /// Signed data in an answer of the App Store Server API.
    case appleAPI = "apple-api"
    /// A real-time developer notification of Google Play: a hint that something changed, without facts.
    case googleRTDN = "google-rtdn"
    /// An answer of the Google Play Developer API.
    case googleAPI = "google-api"
    /// A purchase that an app got from Google Play and its backend handed in, confirmed by an answer of the API.
    case googleDevice = "google-device"
    /// A purchase that Google Play took back, from its list of voided purchases or from a notification.
    case googleVoided = "google-voided"
    /// The operator's backend, over the private listener.
    case backend
    /// An operator who asks the store for a change.
    case `operator`
}

extension EventSource {
    /// Whether a store sends it by itself. What was asked for, or stated by backends and operators, is not.
    package var isPushed: Bool {
        switch self {
        case .appleV1, .appleV2, .googleRTDN: true
        case .appleHistory, .appleReceipt, .appleDevice, .appleAPI, .googleAPI, .googleDevice, .googleVoided, .backend,
            .operator:
            false
        }
    }
}

/// The kind of event, common to all sources. For people and reports: access is derived from facts alone.
package enum EventKind: String, Sendable, Hashable, CaseIterable {
    case purchase
    /// Access that was given by hand.
    case grant
    case grantRevoked = "grant_revoked"
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
    /// The seats of a group that members had claimed are theirs no more.
    case seatsUnclaimed = "seats_unclaimed"
    /// A backend gave a seat of a subscription to a customer.
    case seatClaim = "seat_claim"
    /// A backend took that seat back.
    case seatRelease = "seat_release"
    /// The App Store answered a question about a receipt: a snapshot of all purchases in it.
    case receipt
    /// The App Store answered that the Apple Account of a receipt was deleted.
    case accountDeletion = "account_deletion"
    /// A signed transaction of a device that a backend handed in, or of an answer of the App Store Server API.
    case transaction
    /// A backend handed in a signed app transaction of a device.
    case appTransaction = "app_transaction"
    /// Access was suspended, or will be, until the customer resumes.
    case pause
    /// Access was suspended until a failed renewal is paid.
    case hold
    /// An answer of the Google Play Developer API: what it knows of a purchase now.
    case answer
    case test
    /// A backend linked purchases to a customer.
    case link
    /// An operator is about to ask the store for a change.
    case writeRequest = "write_request"
    /// What the store answered to an operator, or that it did not.
    case writeAnswer = "write_answer"
    /// An operator closed a month: the event keeps its figures.
    case monthClosed = "month_closed"
    /// An operator opened a closed month again.
    case monthReopened = "month_reopened"
    /// An operator erased a person's data.
    case erasure
    /// A type that this version does not know. Its facts are processed like any others.
    case other
}

/// Identifies a notification within its stream: equal keys mean that one notification was sent again. For V1 see
/// ``Event/hasUniqueKey``.
package struct DedupeKey: Sendable, Hashable {
    /// A SHA-256 of 32 bytes, or a UUID of 16.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Lower-case hexadecimal digits, two per byte.
    package var hexadecimal: String { Hex.text(bytes) }
}

extension Defect {
    /// A cancellation notification contains no cancelled purchase, so access that should have ended continues.
    package static let cancellationWithoutPurchase = Defect(
        path: "cancellation_date_ms", problem: "is of a purchase that the receipt does not hold")

    /// The problem of an account token that is kept as a fact, but identifies no account.
    package static let nilAccountToken = "is the nil UUID, which identifies no account"

    /// True for an account token that was read and is ignored.
    package var isIgnoredAccountToken: Bool { problem == Self.nilAccountToken }
}

/// An event of a known stream with the bytes that prove it: the only input that the log accepts.
///
/// Only types whose values result from verifying their origin conform, so unverified bytes cannot reach the log.
package protocol ProvenEvent: Sendable {
    var stream: StreamKey { get }
    var event: Event { get }
    /// The bytes to store. V1: the body as it arrived, with its secret emptied. V2: `{"signedPayload":"…"}`
    /// with the signed text as it arrived; anything around it was not signed and is dropped. Answer of verifyReceipt: as
    /// it arrived; for a deleted account, with the subscriptions that are known by the receipt. Device:
    /// an object of the signed texts, see ``AppStore/SignedStatement``. Backend, operator: the canonical JSON.
    var evidence: Evidence { get }
    /// SHA-256 of the bytes of the evidence.
    var bodyDigest: [UInt8] { get }
    /// Nil for unsigned events.
    var chain: SigningChain? { get }
    /// True if a signature came with two certificates instead of three.
    var hasShortChain: Bool { get }
}

extension ProvenEvent {
    package var hasShortChain: Bool { false }
}

/// The bytes of a signed event whose app is not configured: the only input that the quarantine accepts.
///
/// Only types whose values result from verifying the signature conform. It has no stream, and is not a ``ProvenEvent``:
/// the log accepts the event only after it was verified again, as one of a configured app.
package protocol QuarantinedEvent: Sendable {
    /// The bundle id that the signed bytes contain.
    var app: String { get }
    var environment: Environment { get }
    /// As that of the ``ProvenEvent`` that the event becomes.
    var evidence: Evidence { get }
    /// SHA-256 of the bytes of the evidence.
    var bodyDigest: [UInt8] { get }
}

/// The certificate chain of a signed event, with its revocation status at the time of receipt.
package struct SigningChain: Sendable, Hashable {
    /// The revocation status of the chain. Notifications of revoked chains are never accepted.
    package enum Revocation: String, Sendable {
        /// Checks are disabled.
        case off
        /// A check was started and has not finished.
        case pending
        case good
        /// A check returned no usable response.
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
