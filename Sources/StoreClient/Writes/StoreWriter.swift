import AppStore
import Encoding
import EventLog
import Subscriptions

/// Asks the App Store for changes, with the request and the answer in the log.
///
/// The request is stored before Apple is asked. If the process ends before the answer is stored, or there is none, the same
/// change is asked for again with the same identifier, and Apple makes it once. A write never changes an entitlement by
/// itself: what Apple states afterwards does.
package struct StoreWriter: Sendable {
    private let client: ServerAPIClient
    private let log: WriteLog
    private let clock: StoreClock

    package init(client: ServerAPIClient, log: WriteLog, clock: StoreClock) {
        self.client = client
        self.log = log
        self.clock = clock
    }

    package enum Outcome: Sendable {
        /// Apple was asked. `recorded` has the position of the answer's event, or why it was not stored.
        case asked(StoreWrite, recorded: Result<Int64, AppendError>, repeats: WriteLog.Placed?)
        /// An earlier request for another change of this kind has no answer. Apple was not asked.
        case open(WriteLog.Placed)
        /// The identifier is of a request for another change. Apple was not asked.
        case identifierUsed(WriteLog.Placed)
    }

    /// Asks for a change. Safe to repeat if the answer is unknown.
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
        let begun = try await log.begin(
            request, isIdentifierChosen: isIdentifierChosen, in: stream, receivedAt: clock.date())
        switch begun {
        case .open(let placed): return .open(placed)
        case .identifierUsed(let placed): return .identifierUsed(placed)
        case .begun(let sent, let repeats):
            return await Task {
                let answer = await ask(sent.write, of: app, on: host)
                let answered = sent.write.answered(answer)
                let recorded = await log.finish(answered, in: stream, receivedAt: clock.date())
                return Outcome.asked(answered, recorded: recorded.map(\.position), repeats: repeats)
            }.value
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
