import Encoding

/// A change at the store that an operator asks for, with the reason and the store's answer.
///
/// It is evidence of what was asked for, and no fact about a subscription: only what the store states afterwards is.
package struct StoreWrite: Sendable, Hashable {
    package let change: Change
    /// Identifies the request. The store makes a change once, however often a request with its identifier is repeated.
    package let requestIdentifier: String
    /// The operator.
    package let by: String
    package let reason: String
    /// Nil until the store was asked.
    package let answer: Answer?
    /// Of a request whose sender may repeat it; nil for others, and for answers.
    package let idempotency: IdempotencyKey?

    /// What identifies a request whose sender may repeat it, in its stream.
    package struct IdempotencyKey: Sendable, Hashable {
        /// As the sender has chosen it.
        package let text: String
        /// What was requested with it: a SHA-256 in hexadecimal digits.
        package let requestDigest: String

        package init(_ text: String, requestDigest: String) {
            self.text = text
            self.requestDigest = requestDigest
        }
    }

    package enum Change: Sendable, Hashable {
        case extend(originalTransactionId: String, ExtensionTerms)
        /// All active subscriptions of a product; with storefronts, only those bought in them.
        case extendAll(productId: String, storefronts: [String], ExtensionTerms)
        case setAccountToken(originalTransactionId: String, appAccountToken: String)
        /// On Google Play: the subscription is not renewed, and the customer can restore it.
        case cancel(PlaySubject)
        /// On Google Play: access ends now, and what was paid for the period is refunded, or the rest of it.
        case revoke(PlaySubject, isProrated: Bool)
        /// On Google Play: the next charge is made later, and access goes on until then.
        case `defer`(PlaySubject, days: Int, etag: String)
        /// On Google Play: what was paid for an order is refunded, and its access stays or ends.
        case refund(originalTransactionId: String, orderId: String, revokes: Bool)
        /// What a store is told about a purchase that its customer wants to return.
        case answerRefund(RefundSubject, ConsumptionAnswer)
    }

    /// The purchase of a refund request.
    package struct RefundSubject: Sendable, Hashable {
        /// Nil if Google asks about an order that is not known.
        package let originalTransactionId: String?
        /// For Google, the id of the order.
        package let transactionId: String

        package init(originalTransactionId: String?, transactionId: String) {
            self.originalTransactionId = originalTransactionId
            self.transactionId = transactionId
        }
    }

    /// A purchase on Google Play, of a subscription of the ledger.
    package struct PlaySubject: Sendable, Hashable {
        package let originalTransactionId: String
        /// The token itself, however long it is.
        package let purchaseToken: String

        package init(originalTransactionId: String, purchaseToken: String) {
            self.originalTransactionId = originalTransactionId
            self.purchaseToken = purchaseToken
        }
    }

    /// - Source: Google, "Method: purchases.subscriptionsv2.defer".
    package static let deferredDaysAllowed = 1...365

    package enum Action: String, Sendable, CaseIterable {
        case extend
        case extendAll = "extend_all"
        case setAccountToken = "set_account_token"
        case cancel
        case revoke
        case `defer`
        case refund
        case answerRefund = "answer_refund"
    }

    package struct ExtensionTerms: Sendable, Hashable {
        package let days: Int
        package let reason: ExtensionReason

        /// - Source: Apple, "extendByDays".
        package static let daysAllowed = 1...90

        package init(days: Int, reason: ExtensionReason) {
            self.days = days
            self.reason = reason
        }
    }

    /// Apple's reasons for an extension. The raw values are words for people.
    ///
    /// - Source: Apple, "extendReasonCode".
    package enum ExtensionReason: String, Sendable, Hashable, CaseIterable {
        case undeclared
        case satisfaction
        case other
        case outage

        package var code: Int {
            switch self {
            case .undeclared: 0
            case .satisfaction: 1
            case .other: 2
            case .outage: 3
            }
        }

        init?(code: Int) {
            guard let reason = Self.allCases.first(where: { $0.code == code }) else { return nil }
            self = reason
        }
    }

    /// What the store answered to the last request.
    package struct Answer: Sendable, Hashable {
        package enum Result: String, Sendable, CaseIterable {
            case accepted
            /// The store does not make the change.
            case refused
            /// The store may have made the change: there was no answer, or none that says so. The request may be
            /// repeated.
            case unknown
        }

        package let result: Result
        /// Apple's code of the error; nil for an error without one.
        package let errorCode: Int64?
        /// The HTTP status of an error.
        package let httpStatus: Int?
        /// Why the result is unknown, a word from a closed list.
        package let problem: String?
        /// The new end of the period of an extended subscription.
        package let effectiveDate: Instant?
        package let webOrderLineItemId: String?

        package init(
            _ result: Result, errorCode: Int64? = nil, httpStatus: Int? = nil, problem: String? = nil,
            effectiveDate: Instant? = nil, webOrderLineItemId: String? = nil
        ) {
            self.result = result
            self.errorCode = errorCode
            self.httpStatus = httpStatus
            self.problem = problem
            self.effectiveDate = effectiveDate
            self.webOrderLineItemId = webOrderLineItemId
        }
    }

    package init(
        _ change: Change, requestIdentifier: String, by: String, reason: String, answer: Answer? = nil,
        idempotency: IdempotencyKey? = nil
    ) {
        self.change = change
        self.requestIdentifier = requestIdentifier
        self.by = by
        self.reason = reason
        self.answer = answer
        self.idempotency = idempotency
    }

    /// The request with its answer.
    package func answered(_ answer: Answer) -> StoreWrite {
        StoreWrite(change, requestIdentifier: requestIdentifier, by: by, reason: reason, answer: answer)
    }

    package var kind: EventKind { answer == nil ? .writeRequest : .writeAnswer }

    /// Whether the store may still make the change, or may have made it: the request should be repeated.
    package var isOpen: Bool { answer.map { $0.result == .unknown } ?? true }
}

extension StoreWrite.Change {
    package var action: StoreWrite.Action {
        switch self {
        case .extend: .extend
        case .extendAll: .extendAll
        case .setAccountToken: .setAccountToken
        case .cancel: .cancel
        case .revoke: .revoke
        case .defer: .defer
        case .refund: .refund
        case .answerRefund: .answerRefund
        }
    }

    /// Whether it comes on top of an earlier change of its kind, rather than replace it.
    package var isAddition: Bool {
        switch self {
        case .extend, .extendAll, .defer: true
        case .setAccountToken, .cancel, .revoke, .refund, .answerRefund: false
        }
    }

    /// The `originalTransactionId`; nil if it is about all subscriptions of a product, or about an unknown order.
    package var originalTransactionId: String? {
        switch self {
        case .extend(let id, _), .setAccountToken(let id, _), .refund(let id, _, _): id
        case .cancel(let subject), .revoke(let subject, _), .defer(let subject, _, _): subject.originalTransactionId
        case .answerRefund(let subject, _): subject.originalTransactionId
        case .extendAll: nil
        }
    }

    /// The `originalTransactionId` or the product id.
    package var subject: String {
        if case .extendAll(let productId, _, _) = self { return productId }
        return originalTransactionId ?? ""
    }
}

// MARK: - Event

extension StoreWrite {
    /// Creates the event to append to the log.
    ///
    /// - Parameter dedupeKey: Must differ when the same request is sent again later.
    package func event(
        environment: Environment, app: String?, receivedAt: Instant, dedupeKey: DedupeKey
    ) -> Event {
        var event = Event(
            source: .operator, environment: environment, app: app, type: nil, subtype: nil,
            kind: kind, dedupeKey: dedupeKey, occurredAt: receivedAt,
            transactions: [], renewals: [], defects: [])
        event.write = self
        return event
    }
}
