import Crypto
import Encoding
import Subscriptions

/// A statement of Google in the form in which the log stores it. Answers name neither the app nor the purchase, so both
/// stand beside them:
///
/// `{"packageName":"…","purchaseToken":"…","resource":"subscriptionsv2","answer":{…},"notices":[…]}`
///
/// Instead of `resource` and `answer` it has `"gone":true` if Google no longer answers about the purchase, or
/// `"voidedPurchase":{…}` with a row of the list of voided purchases. `notices` are the facts of the notifications that
/// led to the question.
package struct StoredStatement: Sendable {
    package enum Content: Sendable {
        case answer(PlayResource, JSONValue)
        case gone
        case voidedPurchase(JSONValue)
        /// Nothing but the notices.
        case notices
    }

    package let packageName: String
    package let purchaseToken: PurchaseToken
    package let content: Content
    private let notices: [PurchaseFact]

    /// - Throws: ``UnreadableJSON`` if the body is not one that ``PlayStatement`` wrote.
    package init(decoding body: [UInt8]) throws(UnreadableJSON) {
        guard let root = try? JSONDocument(body).root, root.isObject else { throw .notAnObject }
        guard let name = root.string("packageName") else { throw .missing("packageName") }
        guard let token = root.string("purchaseToken").flatMap({ PurchaseToken($0) }) else {
            throw .missing("purchaseToken")
        }
        packageName = name
        purchaseToken = token
        if let answer = root["answer"] {
            guard let resource = root.string("resource").flatMap({ PlayResource(rawValue: $0) }) else {
                throw .missing("resource")
            }
            content = .answer(resource, answer)
        } else if let row = root["voidedPurchase"] {
            content = .voidedPurchase(row)
        } else {
            content = root["gone"]?.bool == true ? .gone : .notices
        }
        var notices: [PurchaseFact] = []
        for element in root["notices"]?.elements ?? [] {
            guard let fact = try? PurchaseFact(json: element) else { throw .missing("notices") }
            notices.append(fact)
        }
        self.notices = notices
    }

    /// What the statement says. See ``PurchaseContent``.
    func purchases(answeredAt: Instant) throws(UnreadableJSON) -> PurchaseContent {
        var read: PurchaseContent
        switch content {
        case .answer(let resource, let answer):
            read = try PurchaseContent(
                decoding: answer, of: resource, token: purchaseToken, answeredAt: answeredAt)
        case .gone:
            let notice = PurchaseNotice(purchaseToken: purchaseToken.key, kind: .gone, at: answeredAt)
            read = PurchaseContent(facts: [.notice(notice)])
        case .voidedPurchase(let row):
            var fields = JSONFields(row)
            guard let voided = VoidedPurchase(&fields) else { throw .missing("voidedPurchase") }
            read = PurchaseContent(facts: [voided.fact])
        case .notices: read = PurchaseContent(facts: [])
        }
        // An order may be of another purchase than the one that was asked about.
        let token = read.facts.first?.purchaseToken ?? purchaseToken.key
        read.facts += notices.filter { $0.purchaseToken == token }
        guard !read.facts.isEmpty else { throw .missing("notices") }
        return read
    }

    /// Returns the statement as a normalised event.
    ///
    /// - Parameters:
    ///   - environment: That of the purchase, if the answer does not say it.
    ///   - answeredAt: Our clock: the facts are true then.
    package func event(
        source: EventSource, environment: Environment?, answeredAt: Instant, bodyDigest: [UInt8]
    ) throws(UnreadableJSON) -> Event {
        let read = try purchases(answeredAt: answeredAt)
        var event = Event(
            source: source, environment: read.environment ?? environment ?? .unknown, app: packageName,
            type: read.facts.lazy.compactMap(\.stateName).first, subtype: nil, kind: kind,
            dedupeKey: Self.dedupeKey(bodyDigest, answeredAt), occurredAt: answeredAt, transactions: [], renewals: [],
            defects: read.defects)
        event.purchases = read.facts
        return event
    }

    private var kind: EventKind {
        switch content {
        case .answer, .gone: .answer
        case .voidedPurchase: .refund
        case .notices: notices.contains { if case .void = $0 { true } else { false } } ? .refund : .other
        }
    }

    /// Unique for each answer: equal answers at different times are different testimony.
    private static func dedupeKey(_ bodyDigest: [UInt8], _ answeredAt: Instant) -> DedupeKey {
        var hasher = SHA256()
        hasher.update(data: bodyDigest)
        hasher.update(data: Array("\(answeredAt.milliseconds)".utf8))
        return DedupeKey(bytes: Array(hasher.finalize()))
    }
}

extension PurchaseFact {
    /// The state that an answer had.
    fileprivate var stateName: String? {
        switch self {
        case .snapshot(let snapshot): snapshot.stateName
        case .order(let order): order.stateName
        case .void, .notice: nil
        }
    }
}
