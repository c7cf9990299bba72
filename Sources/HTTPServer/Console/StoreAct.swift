import Console
import Crypto
import Encoding
import EventLog
import Foundation
import Subscriptions

/// What a form of a subscription's page asks a store for.
struct StoreAct: Sendable {
    let action: StoreWrite.Action
    private let days: Int
    private let code: StoreWrite.ExtensionReason
    private let token: String
    private let isProrated: Bool
    private let revokes: Bool
    /// For a deferral. That of the preview, if it was shown.
    var etag: String?

    init(_ form: ConsoleQuery, _ subscription: Subscription) throws {
        guard let action = try form.text("act").flatMap(StoreWrite.Action.init(rawValue:)),
            Self.actions(of: subscription).contains(action)
        else {
            throw ConsoleProblem(.badRequest, "Bad request", "The store of this subscription makes no such change.")
        }
        self.action = action
        days = try form.text("days").flatMap { Int($0) } ?? 0
        code = try form.text("code").flatMap(StoreWrite.ExtensionReason.init(rawValue:)) ?? .undeclared
        token = try form.text("token")?.trimmed?.lowercased() ?? ""
        isProrated = try form.text("refund") == "prorated"
        revokes = try form.text("revokes") == "yes"
        etag = try form.text("etag")
    }

    /// Reads the members that the log has of a change.
    ///
    /// - Throws: ``RequestQuery/Malformed``; ``Problem`` with status 409 if the store of the subscription makes no such
    ///   change.
    init(_ json: JSONValue, _ subscription: Subscription) throws {
        let actions = Self.appleActions + Self.googleActions
        guard let action = json.string("action").flatMap(StoreWrite.Action.init(rawValue:)), actions.contains(action)
        else {
            throw RequestQuery.Malformed(problem: "action must be one of \(Self.list(actions))", field: "action")
        }
        let own = Self.actions(of: subscription)
        guard own.contains(action) else {
            throw Problem(
                .conflict, "the store of this subscription makes no such change, but \(Self.list(own))", field: "action"
            )
        }
        self.action = action
        days = Self.number(action == .defer ? "deferByDays" : "extendByDays", of: json)
        let code = Self.number("extendReasonCode", of: json)
        guard let reason = StoreWrite.ExtensionReason.allCases.first(where: { $0.code == code }) else {
            throw RequestQuery.Malformed(problem: "extendReasonCode must be from 0 to 3", field: "extendReasonCode")
        }
        self.code = reason
        token = json.string("appAccountToken")?.lowercased() ?? ""
        let refund = json.string("refund")
        guard action != .revoke || ["full", "prorated"].contains(refund) else {
            throw RequestQuery.Malformed(problem: "refund must be full or prorated", field: "refund")
        }
        isProrated = refund == "prorated"
        let revoke = json.bool("revoke")
        guard action != .refund || revoke != nil else {
            throw RequestQuery.Malformed(problem: "revoke must be true or false", field: "revoke")
        }
        revokes = revoke == true
        etag = json.string("etag")
    }

    private static func number(_ name: StaticString, of json: JSONValue) -> Int {
        json[name]?.integer.flatMap { Int(exactly: $0) } ?? 0
    }

    /// What the store of a subscription can be asked for.
    private static func actions(of subscription: Subscription) -> [StoreWrite.Action] {
        subscription.currentPurchase == nil ? appleActions : googleActions
    }

    private static let appleActions: [StoreWrite.Action] = [.extend, .setAccountToken]
    private static let googleActions: [StoreWrite.Action] = [.cancel, .revoke, .defer, .refund]

    private static func list(_ actions: [StoreWrite.Action]) -> String {
        actions.map(\.rawValue).joined(separator: ", ")
    }

    var needsEtag: Bool { action == .defer && etag == nil }

    /// The key of a request whose sender may repeat it. Computed before a missing ``etag`` is asked for: the purchase changes
    /// with what was requested.
    func idempotencyKey(
        _ text: String, about id: String, by author: String, reason: String
    ) -> StoreWrite.IdempotencyKey {
        var writer = JSONWriter()
        writer.array([id, author, reason] + fields.map(\.1)) { $0.value($1) }
        let digest = SHA256.hash(data: writer.bytes).reduce(into: "") { text, byte in
            text += (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        return StoreWrite.IdempotencyKey(text, requestDigest: digest)
    }

    /// - Throws: ``ConsoleProblem``.
    func change(of subscription: Subscription) throws(ConsoleProblem) -> StoreWrite.Change {
        let id = subscription.originalTransactionId
        let purchase = subscription.currentPurchase
        let subject = purchase.map {
            StoreWrite.PlaySubject(originalTransactionId: id, purchaseToken: $0.fullPurchaseToken)
        }
        func refused(_ detail: String) -> ConsoleProblem { ConsoleProblem(.badRequest, "Not done", detail) }
        switch (action, subject) {
        case (.extend, _):
            guard StoreWrite.ExtensionTerms.daysAllowed.contains(days) else {
                throw refused("Days must be from 1 to 90.")
            }
            return .extend(originalTransactionId: id, StoreWrite.ExtensionTerms(days: days, reason: code))
        case (.setAccountToken, _):
            guard UUID(uuidString: token) != nil, token != CustomerKey.nilAccountToken else {
                throw refused("The account token must be a UUID, and not the nil one.")
            }
            return .setAccountToken(originalTransactionId: id, appAccountToken: token)
        case (.cancel, let subject?) where purchase?.isSubscription == true: return .cancel(subject)
        case (.revoke, let subject?) where purchase?.isSubscription == true:
            return .revoke(subject, isProrated: isProrated)
        case (.defer, let subject?) where purchase?.isSubscription == true:
            guard StoreWrite.deferredDaysAllowed.contains(days) else { throw refused("Days must be from 1 to 365.") }
            guard let etag else {
                throw ConsoleProblem(
                    .serviceUnavailable, "Not done", "Google does not answer about the purchase. Try again later.")
            }
            return .defer(subject, days: days, etag: etag)
        case (.refund, _):
            guard let orderId = purchase?.latestOrderId else { throw refused("No order of this purchase is known.") }
            return .refund(originalTransactionId: id, orderId: orderId, revokes: revokes)
        default: throw refused("Only subscriptions can be changed so.")
        }
    }

    // MARK: - The preview

    var title: String {
        switch action {
        case .extend, .extendAll: "Extend the subscription by \(span)"
        case .answerRefund: "Answer about a refund"
        case .setAccountToken: "Set the account token"
        case .cancel: "Stop the renewal"
        case .revoke: "End access now, with a refund"
        case .defer: "Move the next charge by \(span)"
        case .refund: "Refund the last order"
        }
    }

    private var span: String { days == 1 ? "1 day" : "\(days) days" }

    var button: String { action == .setAccountToken || action == .extend ? "Ask Apple" : "Ask Google" }

    func effects(on subscription: Subscription, in stream: StreamKey, at now: Instant) -> [String] {
        var effects = [
            "This is about subscription \(subscription.originalTransactionId) of \(stream.app) (\(stream.environment.rawValue))."
        ]
        let end = subscription.accessEnd(at: now).map {
            $0 == .latest ? ", access without an end" : ", access until \($0.longText) UTC"
        }
        effects.append("As far as the ledger knows, it is \(subscription.status(at: now).words)\(end ?? "").")
        switch action {
        case .answerRefund: break
        case .extend, .extendAll:
            effects.append("Apple moves the end of the current period by \(span), and family members follow.")
        case .setAccountToken:
            effects.append(
                "The current transaction and later ones get \(token), and its user owns them unless a link says otherwise."
            )
        case .cancel:
            effects.append("Google does not renew it. Access stays until its end, and the customer can restore it.")
        case .revoke:
            effects.append(
                "Google ends access now, and refunds \(isProrated ? "the rest of the period" : "what was paid for the period")."
            )
        case .defer: effects.append("Google charges \(span) later, and access goes on until then without a payment.")
        case .refund:
            effects.append(
                "Google refunds order \(subscription.currentPurchase?.latestOrderId ?? ""), and access \(revokes ? "ends" : "stays")."
            )
        }
        effects.append(
            "The request and the store’s answer are two events. Access changes with what the store states afterwards.")
        return effects
    }

    var warning: String? {
        switch action {
        case .extend, .extendAll: "An extension cannot be undone, and Apple accepts two in 365 days."
        case .revoke, .refund: "A refund cannot be undone."
        case .defer: "A charge that was moved cannot be moved back."
        case .setAccountToken, .cancel, .answerRefund: nil
        }
    }

    /// The hidden fields that repeat the form.
    var fields: [(String, String)] {
        [
            ("act", action.rawValue), ("days", days == 0 ? "" : "\(days)"), ("code", code.rawValue), ("token", token),
            ("refund", isProrated ? "prorated" : "full"), ("revokes", revokes ? "yes" : "no"), ("etag", etag ?? ""),
        ]
    }
}
