import Encoding

/// A customer's request for a refund, or a chargeback, about which a store asked, with the answer and the store's decision.
package struct RefundRequest: Sendable, Hashable {
    package let stream: StreamKey
    package let store: Store
    /// The first event that reported it. Identifies the request in its stream.
    package let position: Int64
    package let purchase: Purchase
    /// As the store spells it; nil if the notification has none.
    package let reason: String?
    /// How often the store asked. Each time has an id of its own.
    package let requests: Int64
    /// When the store asked first, by its own date; nil if it states none.
    package let requestedAt: Instant?
    /// When the first of these arrived, by our clock.
    package let receivedAt: Instant
    /// Until when the store takes an answer: Apple for twelve hours after the notification arrived, Google for a day after
    /// the time that it states.
    ///
    /// - Source: Apple, "Send Consumption Information"; Google, "PendingRefundReviewNotification".
    package let deadline: Instant
    /// What Google's answer must repeat; nil for Apple, or if the notification has none.
    package let pendingRefundToken: String?
    /// Nil if the store has not decided, or does not say so.
    package let decision: Decision?
    package let answer: Answer?

    package enum Store: String, Sendable, CaseIterable {
        case apple, google

        /// For people.
        package var name: String {
            switch self {
            case .apple: "Apple"
            case .google: "Google"
            }
        }
    }

    package init(
        stream: StreamKey, store: Store, position: Int64, purchase: Purchase, reason: String?, requests: Int64,
        requestedAt: Instant? = nil, receivedAt: Instant, deadline: Instant, pendingRefundToken: String?,
        decision: Decision?, answer: Answer?
    ) {
        self.stream = stream
        self.store = store
        self.position = position
        self.purchase = purchase
        self.reason = reason
        self.requests = requests
        self.requestedAt = requestedAt
        self.receivedAt = receivedAt
        self.deadline = deadline
        self.pendingRefundToken = pendingRefundToken
        self.decision = decision
        self.answer = answer
    }

    /// The purchase that the customer wants to return.
    package struct Purchase: Sendable, Hashable {
        /// For Google, the id of the order.
        package let transactionId: String
        /// Nil if Google asks about an order that is not known.
        package internal(set) var originalTransactionId: String?
        /// Nil like ``originalTransactionId``.
        package internal(set) var productId: String?
        /// Where the purchase is, if Google asks about an order that is known; nil if it is where the question is.
        package internal(set) var environment: Environment?
        /// As Apple spells it.
        package let productType: String?
        package let appAccountToken: String?
        /// Made with the Advanced Commerce API, for which Apple takes an older form of the answer.
        package let isAdvancedCommerce: Bool

        package init(
            transactionId: String, originalTransactionId: String?, productId: String?, productType: String?,
            appAccountToken: String?, isAdvancedCommerce: Bool
        ) {
            self.transactionId = transactionId
            self.originalTransactionId = originalTransactionId
            self.productId = productId
            self.productType = productType
            self.appAccountToken = appAccountToken
            self.isAdvancedCommerce = isAdvancedCommerce
        }
    }

    package struct Decision: Sendable, Hashable {
        package let isGranted: Bool
        package let decidedAt: Instant
        /// When a refund that was granted was reversed; nil if it was not.
        package let reversedAt: Instant?

        package init(isGranted: Bool, decidedAt: Instant, reversedAt: Instant?) {
            self.isGranted = isGranted
            self.decidedAt = decidedAt
            self.reversedAt = reversedAt
        }
    }

    /// Where the answer is recorded: with the purchase, if it is known.
    package var answerStream: StreamKey {
        StreamKey(app: stream.app, environment: purchase.environment ?? stream.environment)
    }

    /// The request with what is known of the order that Google asks about.
    package func located(
        originalTransactionId: String, productId: String?, in environment: Environment
    ) -> RefundRequest {
        var purchase = purchase
        (purchase.originalTransactionId, purchase.productId) = (originalTransactionId, productId)
        purchase.environment = environment
        return RefundRequest(
            stream: stream, store: store, position: position, purchase: purchase, reason: reason, requests: requests,
            requestedAt: requestedAt, receivedAt: receivedAt, deadline: deadline,
            pendingRefundToken: pendingRefundToken, decision: decision, answer: answer)
    }

    /// The answer to the store, and its result.
    package struct Answer: Sendable, Hashable {
        package enum State: String, Sendable, CaseIterable {
            case pending
            case accepted
            /// By the store, or because it contradicts the purchase.
            case refused
            /// The deadline passed, or the store decided, before it accepted it.
            case late
            /// The customer has not consented, so nothing is sent.
            case noConsent = "no_consent"
        }

        package enum Author: String, Sendable {
            /// The policy of the product.
            case policy
            /// The backend, about this purchase.
            case backend
            /// A person in the console, about this purchase.
            case `operator`
        }

        /// Nil without consent.
        package let content: ConsumptionAnswer?
        package let author: Author
        /// Who stated it; nil unless an operator did.
        package let operatorName: String?
        package let statedAt: Instant
        package let state: State
        /// How often it was sent.
        package let attempts: Int32
        /// When it was sent last; nil if it never was.
        package let askedAt: Instant?
        /// Why it was refused, or why the last attempt failed; nil if there is nothing to say.
        package let problem: String?

        package init(
            content: ConsumptionAnswer?, author: Author, operatorName: String? = nil, statedAt: Instant, state: State,
            attempts: Int32, askedAt: Instant?, problem: String?
        ) {
            self.content = content
            self.author = author
            self.operatorName = operatorName
            self.statedAt = statedAt
            self.state = state
            self.attempts = attempts
            self.askedAt = askedAt
            self.problem = problem
        }
    }

    /// The raw values of the other states are those of ``Answer/State``.
    package enum State: String, Sendable, CaseIterable {
        /// The store waits for an answer, and there is none.
        case waiting
        /// There was no answer in time.
        case unanswered
        case pending
        case accepted
        case refused
        case late
        case noConsent = "no_consent"
    }

    package func state(at now: Instant) -> State {
        guard let answer else { return decision == nil && now < deadline ? .waiting : .unanswered }
        return switch answer.state {
        case .pending: .pending
        case .accepted: .accepted
        case .refused: .refused
        case .late: .late
        case .noConsent: .noConsent
        }
    }
}

extension RefundRequest.Answer {
    /// The answer, which had been stated by then, without what came of sending it later.
    fileprivate func known(at instant: Instant, deadline: Instant) -> Self {
        let isPast =
            switch state {
            case .noConsent: true
            case .late: deadline <= instant
            case .pending, .accepted, .refused: askedAt.map { $0 <= instant } ?? true
            }
        guard !isPast else { return self }
        return Self(
            content: content, author: author, operatorName: operatorName, statedAt: statedAt, state: .pending,
            attempts: 0, askedAt: nil, problem: nil)
    }
}

extension RefundRequest {
    /// The request by what was known at an instant; nil if the store had not asked by then.
    ///
    /// - Parameter late: The times of decisions and reversals whose events were received after the instant.
    package func known(at instant: Instant, without late: Set<Instant> = []) -> RefundRequest? {
        guard receivedAt <= instant else { return nil }
        func isKnown(_ time: Instant) -> Bool { time <= instant && !late.contains(time) }
        let decision = self.decision.flatMap { decision in
            isKnown(decision.decidedAt)
                ? Decision(
                    isGranted: decision.isGranted, decidedAt: decision.decidedAt,
                    reversedAt: decision.reversedAt.flatMap { isKnown($0) ? $0 : nil })
                : nil
        }
        let answer = self.answer.flatMap { $0.statedAt <= instant ? $0.known(at: instant, deadline: deadline) : nil }
        return RefundRequest(
            stream: stream, store: store, position: position, purchase: purchase, reason: reason, requests: requests,
            requestedAt: requestedAt, receivedAt: receivedAt, deadline: deadline,
            pendingRefundToken: pendingRefundToken, decision: decision, answer: answer)
    }

    /// Why the store would refuse an answer; nil if it would not.
    package func problem(of content: ConsumptionAnswer) -> ConsumptionAnswer.Malformed? {
        // The older form of the answer has no percentage, and Google has no rules about the kind of the product.
        if purchase.isAdvancedCommerce || store == .google { return nil }
        return content.problem(of: purchase.productType)
    }

    /// Why the store does not wait for another answer.
    package var refusalWords: String {
        if answer?.state == .accepted { return "\(store.name) has accepted another answer" }
        if decision != nil { return "\(store.name) has decided about the request" }
        return "the deadline was \(deadline)"
    }

    /// `{"transactionId":…,"state":…,…,"answer":{…},"decision":{…},"position":…}`, as of an instant.
    package func write(at now: Instant, to writer: inout JSONWriter) {
        writer.object { writeMembers(at: now, to: &$0) }
    }

    package func writeMembers(at now: Instant, to writer: inout JSONWriter) {
        writer.member("transactionId", purchase.transactionId)
        writer.member("store", store.rawValue)
        writer.member("state", state(at: now).rawValue)
        writer.member("originalTransactionId", purchase.originalTransactionId)
        writer.member("productId", purchase.productId)
        writer.member("productType", purchase.productType)
        writer.member("appAccountToken", purchase.appAccountToken)
        writer.member("reason", reason)
        writer.member("requests", requests)
        writer.member("receivedAt", receivedAt)
        writer.member("deadline", deadline)
        if let answer {
            writer.key("answer")
            writer.object { writer in
                writer.member("statedBy", answer.author.rawValue)
                writer.member("by", answer.operatorName)
                writer.member("statedAt", answer.statedAt)
                writer.member("sentAt", answer.askedAt)
                writer.member("attempts", answer.attempts)
                writer.member("problem", answer.problem)
                if let content = answer.content {
                    content.writeMembers(to: &writer)
                } else {
                    writer.member("customerConsented", false)
                }
            }
        }
        if let decision {
            writer.key("decision")
            writer.object { writer in
                writer.member("result", decision.isGranted ? "granted" : "declined")
                writer.member("decidedAt", decision.decidedAt)
                writer.member("reversedAt", decision.reversedAt)
            }
        }
        writer.member("position", position)
    }
}
