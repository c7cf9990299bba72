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
    /// When the event happened by the body's own dates; nil when it has none.
    package var occurredAt: Instant?
    package var transactions: [Transaction]
    package var renewals: [RenewalInfo]
    package var defects: [Defect]

    package init(
        source: Source, environment: Environment, app: String?, type: String?, subtype: String?, kind: Kind,
        dedupeKey: DedupeKey, occurredAt: Instant?, transactions: [Transaction], renewals: [RenewalInfo],
        defects: [Defect]
    ) {
        self.source = source
        self.environment = environment
        self.app = app
        self.type = type
        self.subtype = subtype
        self.kind = kind
        self.dedupeKey = dedupeKey
        self.occurredAt = occurredAt
        self.transactions = transactions
        self.renewals = renewals
        self.defects = defects
    }
}

/// The wire format that an event came in.
package enum Source: String, Sendable, Hashable, CaseIterable {
    case appleV1 = "apple-v1"
}

/// What happened, in one word for all sources. For people and reports: access is decided by facts alone.
package enum Kind: String, Sendable, Hashable, CaseIterable {
    case purchase
    case renewal
    case recovery
    case renewalFailure = "renewal_failure"
    case planChange = "plan_change"
    case autoRenewChange = "auto_renew_change"
    case refund
    case revoke
    case priceConsent = "price_consent"
    case consumptionRequest = "consumption_request"
    /// A type that this version has no word for. Its facts count all the same.
    case other
}

/// Identifies a notification within its stream: equal keys are one notification sent again.
package struct DedupeKey: Sendable, Hashable {
    /// SHA-256, 32 bytes.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// 64 lower-case hexadecimal digits.
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
}
