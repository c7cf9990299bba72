import Encoding
import EventLog
import Foundation
import Hummingbird
import Readers
import Subscriptions

/// `POST /subscriptions/{originalTransactionId}/writes?app=` asks the store for a change of a subscription, as the console
/// does. With `"preview":true`, it says what the change would do. A request with an `Idempotency-Key` that was answered before
/// gets the same outcome.
package struct WriteRoutes: RouteSet {
    private let subscriptions: SubscriptionReader
    private let stores: (any StoreActs)?
    private let now: @Sendable () -> Instant
    private let bodies = BodyReader()

    /// - Parameter stores: Nil if this process can append no request.
    package init(
        subscriptions: SubscriptionReader, stores: (any StoreActs)?, now: @escaping @Sendable () -> Instant
    ) {
        self.subscriptions = subscriptions
        self.stores = stores
        self.now = now
    }

    package func add(to routes: PrivateRoutes) {
        routes.operate.post("/subscriptions/:originalTransactionId/writes") { request, context in
            let id = try PathParameter.text("originalTransactionId", context)
            let stream = try RequestQuery(request).stream()
            let key = try IdempotencyKey.of(request)
            return try await bodies.withJSON(of: request, bytesMax: Limits.consoleFormBytesMax) { json in
                try await ask(json, key, about: id, in: stream)
            }
        }
    }

    private func ask(
        _ json: JSONValue, _ keyText: String?, about id: String, in stream: StreamKey
    ) async throws -> Response {
        guard let stores else {
            throw Problem(
                .notImplemented,
                "changes disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        guard stores.makesChanges else {
            throw Problem(.forbidden, "changes at the stores are switched off on this server")
        }
        let found = try await subscriptions.leading(subscriptions.subscriptions([id], in: stream), in: stream)
        guard let subscription = found.first?.subscription else {
            throw Problem(.notFound, "no subscription has this id in \(stream.environment.rawValue)")
        }
        let by = try Self.line("by", of: json)
        let reason = try Self.line("reason", of: json)
        var act = try StoreAct(json, subscription)
        let isPreview = json.bool("preview") == true
        let key = isPreview ? nil : keyText.map { act.idempotencyKey($0, about: id, by: by, reason: reason) }
        // The purchase may have changed with the first request, so that it could not be requested today.
        if let key, let outcome = try await stores.outcome(of: key, in: stream) {
            return try Self.response(to: outcome)
        }
        if act.needsEtag, let token = subscription.currentPurchase?.fullPurchaseToken {
            act.etag = await stores.etag(of: token, app: stream.app)
        }
        let change: StoreWrite.Change
        do throws(ConsoleProblem) {
            change = try act.change(of: subscription)
        } catch {
            throw Problem(error.status, error.detail.lowercasedFirst)
        }
        let request = StoreWrite(
            change, requestIdentifier: UUID().uuidString.lowercased(), by: by, reason: reason, idempotency: key)
        guard !isPreview else {
            return Self.response { writer in
                writer.key("effects")
                writer.array(act.effects(on: subscription, in: stream, at: now())) { $0.value($1) }
                writer.member("warning", act.warning)
                request.writeMembers(to: &writer)
            }
        }
        return try Self.response(to: try await stores.ask(request, in: stream))
    }

    private static func response(to outcome: StoreActOutcome) throws(Problem) -> Response {
        switch outcome {
        case .asked(let write, let isRecorded):
            return response { writer in
                write.writeMembers(to: &writer)
                writer.member("recorded", isRecorded)
            }
        case .underWay:
            throw Problem(
                .conflict, "the first request with this key waits for the store",
                headers: [.retryAfter: "\(Limits.retryAfterSeconds)"])
        case .keyUsed:
            throw Problem(
                .unprocessableContent, "the key is of another request: expected a new one for a new request",
                field: IdempotencyKey.name)
        case .open(let write):
            throw Problem(
                .conflict,
                "an earlier request for another change has no answer, and both might be made: ask for that one again "
                    + "first, which \(write.by) asked for")
        case .impossible:
            throw Problem(.conflict, "this server has no key with which the store can be asked", field: "app")
        }
    }

    private static func response(_ content: (inout JSONWriter) -> Void) -> Response {
        JSONResponse.json(.ok, content)
    }

    /// A line for people.
    private static func line(_ name: StaticString, of json: JSONValue) throws(RequestQuery.Malformed) -> String {
        guard let text = json.string(name)?.trimmed, (1...Limits.consoleReasonBytesMax).contains(text.utf8.count),
            !text.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 })
        else {
            throw RequestQuery.Malformed(
                problem: "\(name) must be a line of 1 to \(Limits.consoleReasonBytesMax) bytes", field: "\(name)")
        }
        return text
    }
}

extension String {
    fileprivate var lowercasedFirst: String {
        let text = hasSuffix(".") ? dropLast() : self[...]
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}
