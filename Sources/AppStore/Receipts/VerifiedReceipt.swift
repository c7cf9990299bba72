import Encoding
import Subscriptions

/// A genuine answer about a receipt of a configured app. Created only by ``Apps``.
package struct VerifiedReceipt: ProvenEvent {
    package let stream: StreamKey
    package let event: Event
    package let evidence: Evidence
    package let bodyDigest: [UInt8]
    /// Answers are not signed: their origin is the host that was asked.
    package let chain: SigningChain? = nil
    package let status: ReceiptStatus
    /// Our clock. The dedupe key depends on it, so the event must be appended with this time.
    package let receivedAt: Instant
    /// The receipt to ask with from now on; nil if the answer has none, so that the one that was asked about still
    /// counts.
    package let latestReceipt: Receipt?

    fileprivate init(
        stream: StreamKey, event: Event, evidence: Evidence, bodyDigest: [UInt8], status: ReceiptStatus,
        receivedAt: Instant, latestReceipt: Receipt?
    ) {
        self.stream = stream
        self.event = event
        self.evidence = evidence
        self.bodyDigest = bodyDigest
        self.status = status
        self.receivedAt = receivedAt
        self.latestReceipt = latestReceipt
    }
}

extension Apps {
    /// Checks that an answer is genuine and about a receipt of the app, and removes the app's shared secrets from it.
    ///
    /// - Parameters:
    ///   - app: The bundle id of the app whose receipt was asked about.
    ///   - subscriptions: The `originalTransactionId`s known by the receipt. Used if the account was deleted, since such
    ///     an answer names nothing.
    package func verify(
        _ answer: AnswerFromApple, of app: String, subscriptions: [String]
    ) throws(ReceiptRefusal) -> VerifiedReceipt {
        guard let configured = self.app(app) else { throw .appUnknown }
        let received = answer.answer
        let (evidence, mayDiffer) = received.document.evidence(without: configured.sharedSecrets)
        // The event is decoded from the stored body: otherwise a secret in an unexpected place could reach the facts.
        let stored = mayDiffer ? try Self.decode(withoutSecrets: evidence.bytes) : received
        let environment = answer.host.environment
        let action = stored.status.action(from: answer.host, isRetryable: stored.isRetryable)
        switch action {
        case .accept:
            guard let bundleId = stored.bundleId else { throw .appMissing }
            guard bundleId == app else { throw .otherApp }
        case .accountDeleted:
            guard stored.bundleId ?? app == app else { throw .otherApp }
            guard !subscriptions.isEmpty else { throw .nothingKnown }
        case .askOtherHost, .retry, .retryThenRefuse, .refuse, .alarm: throw .status(stored.status)
        }
        guard stored.environment ?? environment == environment else { throw .wrongEnvironment }
        guard configured.environments.contains(environment) else { throw .environmentRefused(environment) }
        let stream = StreamKey(app: app, environment: environment)
        guard action == .accountDeleted else {
            return Self.receipt(StoredAnswer(stored), evidence, in: stream, receivedAt: answer.receivedAt)
        }
        // Sorted, so that the same answer about the same subscriptions has the same evidence.
        let known = Set(subscriptions.map(ByteString.init)).sorted().map(\.text)
        let deletion = StoredAnswer.evidence(evidence, subscriptions: known)
        return Self.receipt(
            try Self.decode(stored: deletion.bytes), deletion, in: stream, receivedAt: answer.receivedAt)
    }

    private static func receipt(
        _ stored: StoredAnswer, _ evidence: Evidence, in stream: StreamKey, receivedAt: Instant
    ) -> VerifiedReceipt {
        let bodyDigest = evidence.digest
        let event = stored.event(
            app: stream.app, environment: stream.environment, receivedAt: receivedAt, bodyDigest: bodyDigest)
        return VerifiedReceipt(
            stream: stream, event: event, evidence: evidence, bodyDigest: bodyDigest, status: stored.answer.status,
            receivedAt: receivedAt, latestReceipt: stored.answer.latestReceipt)
    }

    private static func decode(withoutSecrets body: [UInt8]) throws(ReceiptRefusal) -> ReceiptAnswer {
        do throws(UnreadableAnswer) {
            return try ReceiptAnswer(decoding: body)
        } catch {
            throw .unreadable(error)
        }
    }

    private static func decode(stored body: [UInt8]) throws(ReceiptRefusal) -> StoredAnswer {
        do throws(UnreadableAnswer) {
            return try StoredAnswer(decoding: body)
        } catch {
            throw .unreadable(error)
        }
    }
}
