import Encoding
import Subscriptions

/// Something that Google said about a purchase of a configured app, over a connection to Google. Only the client of
/// the API makes one: answers are not signed, their origin is the host that was asked.
package struct PlayStatement: ProvenEvent {
    package let stream: StreamKey
    package let event: Event
    package let evidence: Evidence
    package let bodyDigest: [UInt8]
    package let chain: SigningChain? = nil
    /// Our clock. The dedupe key depends on it, so the event must be appended with this time.
    package let answeredAt: Instant

    /// A question about a purchase, and what led to it.
    package struct Subject: Sendable {
        package let packageName: String
        package let purchaseToken: PurchaseToken
        /// The environment of the purchase, if it is known. An answer about a purchase says it and then counts; an order
        /// does not.
        package var environment: Environment?
        /// The ``DeveloperNotification/facts`` of the notifications that led to the question.
        package var notices: [PurchaseFact]

        package init(
            packageName: String, purchaseToken: PurchaseToken, environment: Environment? = nil,
            notices: [PurchaseFact] = []
        ) {
            self.packageName = packageName
            self.purchaseToken = purchaseToken
            self.environment = environment
            self.notices = notices
        }
    }

    /// An answer with status 200.
    ///
    /// - Parameters:
    ///   - body: As it arrived.
    ///   - source: `googleAPI`, or `googleDevice` for a purchase that was handed in.
    ///   - answeredAt: Our clock.
    package static func answer(
        _ body: [UInt8], of resource: PlayResource, about subject: Subject, source: EventSource = .googleAPI,
        answeredAt: Instant
    ) throws(PlayStatementRefusal) -> PlayStatement {
        guard let document = try? JSONDocument(body), document.root.isObject else { throw .unreadable(.notAnObject) }
        return try PlayStatement(
            subject, source: source, answeredAt: answeredAt,
            members: [
                ("resource", Array("\"\(resource.rawValue)\"".utf8)),
                ("answer", document.bytes),
            ])
    }

    /// Google no longer answers about the purchase, for good: ``PlayRefusal/Kind/gone``. Nothing known of it changes; a
    /// revocation that a notification reported before ends it.
    package static func gone(about subject: Subject, answeredAt: Instant) throws(PlayStatementRefusal) -> PlayStatement
    {
        try PlayStatement(subject, source: .googleAPI, answeredAt: answeredAt, members: [("gone", Array("true".utf8))])
    }

    /// A row of the list of voided purchases. The environment of the subject must be known.
    package static func voided(
        _ row: VoidedPurchase, packageName: String, environment: Environment, answeredAt: Instant
    ) throws(PlayStatementRefusal) -> PlayStatement {
        let subject = Subject(
            packageName: packageName, purchaseToken: row.purchaseToken, environment: environment)
        return try PlayStatement(
            subject, source: .googleVoided, answeredAt: answeredAt, members: [("voidedPurchase", row.text.utf8)])
    }

    /// What a genuine notification says about a void, for a purchase whose environment is known from an earlier answer:
    /// it counts although no answer confirms it.
    package static func voided(
        by notification: DeveloperNotification, packageName: String, environment: Environment, answeredAt: Instant
    ) throws(PlayStatementRefusal) -> PlayStatement {
        guard let token = notification.purchaseToken, case .voidedPurchase = notification.content else {
            throw .unreadable(.missing("voidedPurchaseNotification"))
        }
        let subject = Subject(
            packageName: packageName, purchaseToken: token, environment: environment, notices: notification.facts)
        return try PlayStatement(subject, source: .googleVoided, answeredAt: answeredAt, members: [])
    }

    /// Returns the event of a statement as the log stores it.
    ///
    /// - Parameter answeredAt: When it was appended.
    package static func event(
        decoding body: [UInt8], source: EventSource, environment: Environment, answeredAt: Instant
    ) throws(UnreadableJSON) -> Event {
        try StoredStatement(decoding: body).event(
            source: source, environment: environment, answeredAt: answeredAt, bodyDigest: Evidence(body).sha256)
    }

    private init(
        _ subject: Subject, source: EventSource, answeredAt: Instant, members: [(key: StaticString, json: [UInt8])]
    ) throws(PlayStatementRefusal) {
        var writer = JSONWriter(bytesExpected: 4096)
        writer.object { writer in
            writer.member("packageName", subject.packageName)
            writer.member("purchaseToken", subject.purchaseToken.text)
            for (key, json) in members {
                writer.key(key)
                writer.value(rawJSON: json)
            }
            if !subject.notices.isEmpty {
                writer.key("notices")
                writer.array(subject.notices) { $1.write(to: &$0) }
            }
        }
        evidence = Evidence(writer.bytes)
        bodyDigest = evidence.sha256
        do throws(UnreadableJSON) {
            event = try StoredStatement(decoding: writer.bytes).event(
                source: source, environment: subject.environment, answeredAt: answeredAt, bodyDigest: bodyDigest)
        } catch {
            throw .unreadable(error)
        }
        guard event.environment != .unknown else { throw .environmentUnknown }
        stream = StreamKey(app: subject.packageName, environment: event.environment)
        self.answeredAt = answeredAt
    }
}

/// Why an answer of Google is no fact.
package enum PlayStatementRefusal: Error, Hashable, CustomStringConvertible {
    case unreadable(UnreadableJSON)
    /// Neither the answer nor an earlier one says whether it is a test purchase.
    case environmentUnknown

    package var description: String {
        switch self {
        case .unreadable(let problem): problem.description
        case .environmentUnknown:
            "it is not known whether the purchase is a test purchase: ask about the purchase first"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .unreadable(let problem): problem.label
        case .environmentUnknown: "environment_unknown"
        }
    }
}
