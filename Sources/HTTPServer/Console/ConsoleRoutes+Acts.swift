import Console
import Encoding
import EventLog
import Foundation
import Hummingbird
import Readers
import Subscriptions

extension ConsoleRoutes {
    /// Shows what a change at the store would do, or asks the store for it if it was shown.
    func askStore(_ request: Request, _ session: ConsoleSession, id: String) async throws -> Response {
        try await acting("subscriptions at the store", request, session, at: Address("subscriptions", id)) {
            form, visit in
            let (_, stream) = try visit.someStreamKey()
            guard let stores = acts.stores else {
                throw ConsoleProblem(
                    .notImplemented, "Not possible here", "This server cannot append to the log, see its log.")
            }
            guard stores.makesChanges else {
                throw ConsoleProblem(
                    .forbidden, "Not done", "Changes at the stores are switched off on this server.")
            }
            let found = try await subscriptions.leading(subscriptions.subscriptions([id], in: stream), in: stream)
            guard let subscription = found.first?.subscription else {
                throw ConsoleProblem(.notFound, "Not done", "No subscription has this id here.")
            }
            let reason = try form.text("reason")?.trimmed ?? ""
            guard (1...Limits.consoleReasonBytesMax).contains(reason.utf8.count),
                !reason.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 })
            else {
                throw ConsoleProblem(
                    .badRequest, "Not done",
                    "The reason must be a line of 1 to \(Limits.consoleReasonBytesMax) bytes.")
            }
            var act = try StoreAct(form, subscription)
            let own = visit.frame.subscription(id)
            let isConfirmed = try form.text("do") == "ask"
            let key = try isConfirmed ? Self.key(form, act, id, visit, reason) : nil
            if let key, let outcome = try await stores.outcome(of: key, in: stream) {
                return try Self.response(to: outcome, own)
            }
            if act.needsEtag, let token = subscription.currentPurchase?.fullPurchaseToken {
                act.etag = await stores.etag(of: token, app: stream.app)
            }
            let change = try act.change(of: subscription)
            guard isConfirmed else {
                return ConsoleResponse.html(
                    .ok,
                    visit.frame.html(
                        ActPage(
                            title: act.title, effects: act.effects(on: subscription, in: stream, at: visit.now),
                            reason: reason, by: visit.session.actor, button: act.button,
                            action: Address("subscriptions", id),
                            fields: [("do", "ask"), ("key", UUID().uuidString.lowercased())] + act.fields, back: own,
                            warning: act.warning)))
            }
            let outcome = try await stores.ask(
                StoreWrite(
                    change, requestIdentifier: UUID().uuidString.lowercased(), by: visit.session.actor, reason: reason,
                    idempotency: key), in: stream)
            return try Self.response(to: outcome, own)
        }
    }

    /// The key of what a page showed, so that its form sent twice makes one change.
    private static func key(
        _ form: ConsoleQuery, _ act: StoreAct, _ id: String, _ visit: ConsoleRequest, _ reason: String
    ) throws -> StoreWrite.IdempotencyKey {
        guard let text = try form.text("key"), UUID(uuidString: text) != nil else {
            throw ConsoleProblem(.badRequest, "Not done", "The form names no key. Open the page again.")
        }
        return act.idempotencyKey(text, about: id, by: visit.session.actor, reason: reason)
    }

    private static func response(
        to outcome: StoreActOutcome, _ own: Address
    ) throws(ConsoleProblem) -> Response {
        switch outcome {
        case .impossible:
            throw ConsoleProblem(
                .conflict, "Not done", "This server has no key with which the store can be asked.")
        case .open(let write):
            throw ConsoleProblem(
                .conflict, "Not done",
                "An earlier request for another change has no answer, and both might be made: \(write.change.words). "
                    + "Ask for that one again first.",
                choices: [("The subscription", own)])
        case .keyUsed:
            throw ConsoleProblem(
                .unprocessableContent, "Not done", "The form differs from the one that was shown. Open the page again.",
                choices: [("The subscription", own)])
        // The page shows the answer, or that there is none yet: unknown is not done.
        case .asked, .underWay: return ConsoleResponse.seeOther(own.with("done", "asked").text)
        }
    }
}
