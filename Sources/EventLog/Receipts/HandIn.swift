import Encoding
import Subscriptions

/// A receipt that a backend handed in, without its bytes, and what came of it.
package struct HandIn: Sendable, Hashable {
    package enum State: String, Sendable, CaseIterable {
        /// Apple has not answered yet, or not again.
        case pending
        case answered
        /// Apple refused the receipt, or a check of its answer did.
        case refused
    }

    /// What was known about the purchases of a receipt before its answer.
    package enum Registration: String, Sendable, CaseIterable {
        case new
        case known
        /// Another customer owned one of them.
        case otherCustomer = "other_customer"
    }

    /// The problem of a pending receipt for which Apple rejects the app's shared secret.
    package static let secretRejected = "secret_rejected"

    /// A UUID in lower case.
    package let id: String
    package let app: String
    package let customerId: String?
    package let receivedAt: Instant
    package let state: State
    /// When Apple was asked last; nil if it never was.
    package let askedAt: Instant?
    /// Until when a server asks, at most; nil if none does.
    package let askingUntil: Instant?
    package let findings: Findings

    package init(
        id: String, app: String, customerId: String?, receivedAt: Instant, state: State, askedAt: Instant?,
        askingUntil: Instant?, findings: Findings
    ) {
        self.id = id
        self.app = app
        self.customerId = customerId
        self.receivedAt = receivedAt
        self.state = state
        self.askedAt = askedAt
        self.askingUntil = askingUntil
        self.findings = findings
    }

    /// What Apple's last answer, or its absence, led to.
    package struct Findings: Sendable, Hashable {
        /// Why the receipt was refused, or why there was no answer: a word from a closed list.
        package var problem: String?
        /// The number of Apple's status; nil if there was no answer.
        package var status: Int32?
        package var environment: Environment?
        package var registration: Registration?
        /// Whether the customer was linked to the purchases; nil without a customer.
        package var isLinked: Bool?
        /// `originalTransactionId`s, sorted by bytes.
        package var subscriptions: [String]
        /// The position of the event that the answer became; nil if it stated nothing new.
        package var position: Int64?

        package init(
            problem: String? = nil, status: Int32? = nil, environment: Environment? = nil,
            registration: Registration? = nil, isLinked: Bool? = nil, subscriptions: [String] = [],
            position: Int64? = nil
        ) {
            self.problem = problem
            self.status = status
            self.environment = environment
            self.registration = registration
            self.isLinked = isLinked
            self.subscriptions = subscriptions
            self.position = position
        }
    }
}

/// A receipt that this server is asking about. No other server asks about it until the claim ends.
package struct ClaimedReceipt: Sendable {
    package let id: String
    package let app: String
    package let customerId: String?
    /// The account id that the backend gave the app for that customer; nil if it named none.
    package let accountId: String?
    package let receivedAt: Instant
    package let bytes: [UInt8]
    /// How often Apple was asked, this time included, since the receipt became pending.
    package let attempts: Int32
    /// Whether Apple signed it for the app. Anyone can hand in others.
    package let isSigned: Bool
}
