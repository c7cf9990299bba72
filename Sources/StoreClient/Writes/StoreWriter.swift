import AppStore
import Encoding
import EventLog
import PlayStore
import Subscriptions

/// Asks the stores for changes, with the request and the answer in the log.
///
/// The request is stored before the store is asked. If the process ends before the answer is stored, or there is none, the
/// same change is asked for again with the same identifier, and Apple makes it once. Google knows no identifiers: what it made
/// before, it makes again without effect, or refuses because the purchase has changed since. A write never changes an
/// entitlement by itself: what the store states afterwards does.
package struct StoreWriter: Sendable {
    private let client: ServerAPIClient
    private let google: GoogleClient?
    private let log: WriteLog
    private let clock: StoreClock

    /// - Parameter google: Nil to ask Apple only.
    package init(client: ServerAPIClient, google: GoogleClient? = nil, log: WriteLog, clock: StoreClock) {
        self.client = client
        self.google = google
        self.log = log
        self.clock = clock
    }

    package enum Outcome: Sendable {
        /// The store was asked. `recorded` has the position of the answer's event, or why it was not stored.
        case asked(StoreWrite, recorded: Result<Int64, AppendError>, repeats: WriteLog.Placed?)
        /// An earlier request for another change of this kind has no answer. The store was not asked.
        case open(WriteLog.Placed)
        /// The identifier is of a request for another change. The store was not asked.
        case identifierUsed(WriteLog.Placed)
        /// The log has a request with the idempotency key. The store was not asked.
        case known(WriteLog.Repeat)
    }

    /// Asks the App Store for a change. Safe to repeat if the answer is unknown.
    ///
    /// Not cancellable once the request is stored: the answer is waited for and stored.
    ///
    /// - Parameters:
    ///   - app: Must have a key.
    ///   - stream: Names the host: writes are sent to the environment of the purchase only.
    ///   - isIdentifierChosen: See ``WriteLog/begin(_:isIdentifierChosen:in:receivedAt:)``.
    /// - Throws: ``ReadError``, ``AppendError``: then Apple was not asked.
    package func write(
        _ request: StoreWrite, isIdentifierChosen: Bool, of app: App, in stream: StreamKey
    ) async throws -> Outcome {
        guard let host = ReceiptHost(environment: stream.environment) else {
            preconditionFailure("only the environments of the App Store have hosts")
        }
        return try await write(request, isIdentifierChosen: isIdentifierChosen, in: stream) { write in
            await ask(write, of: app, on: host)
        }
    }

    /// Asks Google Play for a change, like ``write(_:isIdentifierChosen:of:in:)-(_,_,App,_)``.
    ///
    /// - Parameter app: Must have credentials.
    package func write(_ request: StoreWrite, of app: GoogleApp, in stream: StreamKey) async throws -> Outcome {
        try await write(request, isIdentifierChosen: false, in: stream) { write in await ask(write, of: app) }
    }

    private func write(
        _ request: StoreWrite, isIdentifierChosen: Bool, in stream: StreamKey,
        _ ask: @escaping @Sendable (StoreWrite) async -> StoreWrite.Answer
    ) async throws -> Outcome {
        let begun = try await log.begin(
            request, isIdentifierChosen: isIdentifierChosen, in: stream, receivedAt: clock.date())
        switch begun {
        case .open(let placed): return .open(placed)
        case .identifierUsed(let placed): return .identifierUsed(placed)
        case .known(let known): return .known(known)
        case .begun(let sent, let repeats):
            return await Task {
                let answer = await ask(sent.write)
                let answered = sent.write.answered(answer)
                let recorded = await log.finish(answered, in: stream, receivedAt: clock.date())
                return Outcome.asked(answered, recorded: recorded.map(\.position), repeats: repeats)
            }.value
        }
    }

    /// What the log has of a request with an idempotency key; nil if there is none.
    ///
    /// - Throws: ``ReadError``.
    package func known(
        _ key: StoreWrite.IdempotencyKey, in stream: StreamKey
    ) async throws(ReadError) -> WriteLog.Repeat? {
        try await log.known(key, in: stream, at: clock.date())
    }

    /// What Google says of a purchase before it is changed: the state to which a change refers. Nil if there is no answer.
    package func etag(of token: PurchaseToken, of app: GoogleApp) async -> String? {
        let request = PlayRequest.subscription(token, of: app.packageName)
        guard case .answered(let answer)? = await google?.ask(request, app: app, priority: .handIn) else { return nil }
        return (try? JSONDocument(answer.body).root)?.string("etag")
    }

    private func ask(_ write: StoreWrite, of app: GoogleApp) async -> StoreWrite.Answer {
        guard let google, let request = Self.request(write.change, app.packageName) else {
            return StoreWrite.Answer(.refused, problem: "not_for_google")
        }
        switch await google.ask(request, app: app, priority: .handIn) {
        case .answered(let answer):
            let items = (try? JSONDocument(answer.body).root)?["itemExpiryTimeDetails"]?.elements(atMost: 1)
            return StoreWrite.Answer(
                .accepted, effectiveDate: items?.first?.string("expiryTime").flatMap { Instant(iso8601: $0) })
        // Not Google's words: a proxy's, perhaps.
        case .refused(let refusal) where refusal.reason == nil:
            return StoreWrite.Answer(
                .unknown, httpStatus: refusal.httpStatus, problem: Unavailability.httpStatus.rawValue)
        case .refused(let refusal):
            return StoreWrite.Answer(.refused, httpStatus: refusal.httpStatus, problem: refusal.kind.rawValue)
        case .rejected: return StoreWrite.Answer(.unknown, problem: StoreWrite.Answer.keyRejected)
        case .unreadable(let label): return StoreWrite.Answer(.unknown, problem: label)
        case .unavailable(let reason, _): return StoreWrite.Answer(.unknown, problem: reason.rawValue)
        }
    }

    /// Nil for what only Apple does.
    private static func request(_ change: StoreWrite.Change, _ package: String) -> PlayRequest? {
        switch change {
        case .cancel(let subject):
            PurchaseToken(subject.purchaseToken).map { .cancel($0, of: package) }
        case .revoke(let subject, let isProrated):
            PurchaseToken(subject.purchaseToken).map { .revoke($0, isProrated: isProrated, of: package) }
        case .defer(let subject, let days, let etag):
            PurchaseToken(subject.purchaseToken).map { .defer($0, days: days, etag: etag, of: package) }
        case .refund(_, let orderId, let revokes): .refund(orderId, revokes: revokes, of: package)
        case .extend, .extendAll, .setAccountToken, .answerRefund: nil
        }
    }

    private func ask(_ write: StoreWrite, of app: App, on host: ReceiptHost) async -> StoreWrite.Answer {
        switch write.change {
        case .extend(let id, let terms):
            let request = ExtendRequest(
                originalTransactionId: id, terms: terms, requestIdentifier: write.requestIdentifier)
            return Self.answer(await client.ask(request, app: app, host: host, priority: .handIn)) { answer in
                StoreWrite.Answer(
                    answer.isExtended ? .accepted : .refused, effectiveDate: answer.effectiveDate,
                    webOrderLineItemId: answer.webOrderLineItemId)
            }
        case .extendAll(let productId, let storefronts, let terms):
            let request = ExtendAllRequest(
                productId: productId, storefronts: storefronts, terms: terms,
                requestIdentifier: write.requestIdentifier)
            return Self.answer(await client.ask(request, app: app, host: host, priority: .handIn)) { _ in
                StoreWrite.Answer(.accepted)
            }
        case .setAccountToken(let id, let token):
            let request = AccountTokenRequest(originalTransactionId: id, appAccountToken: token)
            return Self.answer(await client.ask(request, app: app, host: host, priority: .handIn)) { _ in
                StoreWrite.Answer(.accepted)
            }
        case .cancel, .revoke, .defer, .refund, .answerRefund:
            return StoreWrite.Answer(.refused, problem: "not_for_apple")
        }
    }

    /// Everything but an answer is unknown, a rejected key as well: an earlier try of the same request may have been
    /// accepted.
    private static func answer<Answer>(
        _ outcome: ServerAPIOutcome<Answer>, _ accepted: (Answer) -> StoreWrite.Answer
    ) -> StoreWrite.Answer {
        switch outcome {
        case .answered(let answer): accepted(answer)
        // Not Apple's words: a proxy's, perhaps.
        case .refused(let refusal) where refusal.code == nil:
            StoreWrite.Answer(
                .unknown, httpStatus: refusal.httpStatus, problem: Unavailability.httpStatus.rawValue)
        case .refused(let refusal):
            StoreWrite.Answer(.refused, errorCode: refusal.code, httpStatus: refusal.httpStatus)
        case .rejected: StoreWrite.Answer(.unknown, problem: StoreWrite.Answer.keyRejected)
        case .unreadable(let label): StoreWrite.Answer(.unknown, problem: label)
        case .unavailable(let reason, _): StoreWrite.Answer(.unknown, problem: reason.rawValue)
        }
    }
}

extension StoreWrite.Answer {
    /// The problem of an answer that is unknown because Apple rejects the app's key.
    package static let keyRejected = "key_rejected"

    /// Why the change was refused, in one line; nil if it was not.
    package var refusal: String? {
        guard result == .refused else { return nil }
        guard let httpStatus else { return "the App Store answers that the change failed" }
        return ServerAPIRefusal(code: errorCode, httpStatus: httpStatus).description
    }
}
