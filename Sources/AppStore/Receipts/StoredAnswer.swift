import Crypto
import Encoding
import Subscriptions

/// An answer of verifyReceipt in the form in which the log stores it.
///
/// Usually that is the answer itself. An answer about a deleted account names no purchases, so it is stored with the
/// subscriptions that are known by the receipt: `{"answer":{…},"subscriptions":["…"]}`.
package struct StoredAnswer: Sendable {
    package let answer: ReceiptAnswer
    /// The subscriptions of the deleted account; empty for other answers.
    private let subscriptions: [String]

    /// Decodes an answer as it arrived, or as it was stored.
    package init(decoding body: [UInt8]) throws(UnreadableAnswer) {
        let document = try ReceiptAnswer.document(body)
        if document.root["status"] == nil, let answer = document.root["answer"] {
            let subscriptions = document.root["subscriptions"]?.elements.compactMap(\.string) ?? []
            // Ids are ASCII, and PostgreSQL accepts no NUL in text.
            self.init(
                try ReceiptAnswer(answer, in: document),
                subscriptions: subscriptions.filter { $0.utf8.allSatisfy { (0x20..<0x7F).contains($0) } })
        } else {
            self.init(try ReceiptAnswer(document.root, in: document))
        }
    }

    /// - Parameter subscriptions: For an answer about a deleted account.
    package init(_ answer: ReceiptAnswer, subscriptions: [String] = []) {
        self.answer = answer
        self.subscriptions = subscriptions
    }

    /// The evidence of an answer about a deleted account.
    ///
    /// - Parameter answer: The evidence of the answer alone.
    static func evidence(_ answer: Evidence, subscriptions: [String]) -> Evidence {
        var writer = JSONWriter()
        writer.array(subscriptions) { $0.value($1) }
        let list = writer.bytes
        return Evidence(
            [.bytes(Array("{\"answer\":".utf8)[...])] + answer.pieces
                + [.bytes((Array(",\"subscriptions\":".utf8) + list + Array("}".utf8))[...])])
    }

    /// Whether the status makes the answer a fact: the receipt is genuine, or its account was deleted.
    package var isFact: Bool {
        switch answer.status.action(from: .production, isRetryable: answer.isRetryable) {
        case .accept, .accountDeleted: true
        case .askOtherHost, .retry, .retryThenRefuse, .refuse, .alarm: false
        }
    }

    private var isOfDeletedAccount: Bool {
        answer.status.action(from: .production, isRetryable: nil) == .accountDeleted
    }

    /// Returns the answer as a normalised event.
    ///
    /// - Parameters:
    ///   - app: The app that was asked about; nil if only the answer names it.
    ///   - environment: That of the host that answered; nil if only the answer names it.
    ///   - receivedAt: Our clock.
    ///   - bodyDigest: SHA-256 of the evidence; that of the decoded body if nil.
    package func event(
        app: String?, environment: Environment?, receivedAt: Instant, bodyDigest: [UInt8]? = nil
    ) -> Event {
        let content = isOfDeletedAccount ? ReceiptAnswer.Content() : answer.content()
        var event = Event(
            source: .appleReceipt, environment: environment ?? answer.environment ?? .unknown,
            app: answer.bundleId ?? app, type: nil, subtype: nil,
            kind: isOfDeletedAccount ? .accountDeletion : .receipt,
            dedupeKey: Self.dedupeKey(bodyDigest ?? Evidence(answer.document.bytes).digest, receivedAt),
            occurredAt: answer.requestDate,
            transactions: content.transactions, renewals: content.renewals, defects: content.defects)
        event.accountDeletions = subscriptions
        return event
    }

    /// Unique for each answer: equal answers at different times are different testimony.
    private static func dedupeKey(_ bodyDigest: [UInt8], _ receivedAt: Instant) -> DedupeKey {
        var hasher = SHA256()
        hasher.update(data: bodyDigest)
        hasher.update(data: Array("\(receivedAt.milliseconds)".utf8))
        return DedupeKey(bytes: Array(hasher.finalize()))
    }
}
