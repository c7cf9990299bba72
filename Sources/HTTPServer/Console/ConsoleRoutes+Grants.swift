import Console
import Encoding
import EventLog
import Foundation
import Hummingbird
import Readers
import Subscriptions

extension ConsoleRoutes {
    /// Shows what giving access, or taking it back, would do, or does it if it was shown.
    func changeGrants(_ request: Request, _ session: ConsoleSession, id: String) async throws -> Response {
        try await acting("grants", request, session, at: Address("customers", id)) { form, visit in
            guard let grants = acts.grants else {
                throw ConsoleProblem(
                    .notImplemented, "Not possible here", "This server cannot append to the log, see its log.")
            }
            let (stream, key) = try visit.someStreamKey()
            guard grants.accepts(stream.app) else {
                throw ConsoleProblem(.conflict, "Not done", "The app is not configured on this server.")
            }
            do {
                switch try form.text("do") {
                case "give", "give-now":
                    return try await give(form, visit, id: id, in: key, grants)
                case "revoke", "revoke-now":
                    return try await revoke(form, visit, id: id, in: key, grants)
                default: throw ConsoleProblem(.badRequest, "Bad request", "The page has no form of this name.")
                }
            } catch let malformed as GrantStatement.Malformed {
                let label = Self.labels[malformed.field] ?? malformed.field
                throw ConsoleProblem(
                    .badRequest, "Not done", "\(label)\(malformed.description.dropFirst(malformed.field.count)).")
            }
        }
    }

    private func give(
        _ form: ConsoleQuery, _ visit: ConsoleRequest, id: String, in key: StreamKey, _ grants: GrantService
    ) async throws -> Response {
        let from = try form.instant("from") ?? visit.now
        let length = try form.text("length")
        let until = try Self.until(form, length: length, from: from)
        let grant = try GrantStatement(
            id: try form.text("grant") ?? UUID().uuidString.lowercased(), customerId: id,
            entitlement: try form.text("entitlement")?.trimmed ?? "", from: from, until: until,
            reason: try form.text("reason")?.trimmed ?? "", by: visit.session.actor)
        if try form.text("do") == "give-now" {
            let outcome = try await grants.give(grant, source: .operator, in: key, receivedAt: visit.now)
            return try await response(to: outcome, "given", grant.id, of: id, in: key, visit)
        }
        guard try await grants.isGiven(grant.entitlement, by: key.app) else { throw Self.unknownEntitlement }
        let reference = CustomerReader.Reference(
            app: key.app, environment: key.environment, id: id, kind: .link)
        let customer = Self.found(try await customers.explained(reference, knownAt: nil).customer(at: visit.now))
        let held = customer?.granted.first { $0.entitlement == grant.entitlement && $0.until > visit.now }
        let end = until.map { "until \($0.longText) UTC" } ?? "without an end"
        var effects = [
            "Customer \(id) of \(key.app) (\(key.environment.rawValue)) gets \(grant.entitlement) "
                + "\(from <= visit.now ? "now" : "from \(from.longText) UTC on"), \(end)."
        ]
        if let held {
            let end = held.until == .latest ? "without an end" : "until \(held.until.longText) UTC"
            effects.append("Today the customer has it, \(end).")
            if until ?? .latest <= held.until {
                effects.append("That is no shorter, so this grant adds nothing.")
            } else {
                let isRenewing = customer?.explanation(of: grant.entitlement).couldChange.contains { $0.renewal != nil }
                effects.append(
                    "The grant adds only what lies after that end"
                        + (isRenewing == true ? ", and nothing while a renewal gives access then." : "."))
            }
        } else {
            effects.append("Today the customer does not have it.")
        }
        effects.append("The grant is free, so no figure of payers, money or churn counts it. It can be taken back.")
        return ConsoleResponse.html(
            .ok,
            visit.frame.html(
                ActPage(
                    title: "Give \(grant.entitlement) to \(id)", effects: effects, reason: grant.reason,
                    by: visit.session.actor, button: "Give access", action: Address("customers", id, "grants"),
                    fields: [
                        ("do", "give-now"), ("grant", grant.id), ("entitlement", grant.entitlement),
                        ("from", grant.from.description), ("until", until?.description ?? ""),
                        ("length", until == nil ? "ever" : ""),
                    ], back: visit.frame.customer(id, kind: CustomerKey.Kind.link.rawValue))))
    }

    /// The end of a grant; nil for none.
    private static func until(
        _ form: ConsoleQuery, length: String?, from: Instant
    ) throws(ConsoleProblem) -> Instant? {
        if let until = try form.instant("until", label: "Or until") {
            guard length == nil else {
                throw ConsoleProblem(.badRequest, "Not done", "Choose how long, or give the end, and not both.")
            }
            return until
        }
        if length == "ever" { return nil }
        guard let days = length.flatMap({ Int($0) }), (1...36_500).contains(days) else {
            throw ConsoleProblem(.badRequest, "Not done", "Choose how long, or give the end.")
        }
        return from.advanced(by: .seconds(days * 86_400))
    }

    private func revoke(
        _ form: ConsoleQuery, _ visit: ConsoleRequest, id: String, in key: StreamKey, _ grants: GrantService
    ) async throws -> Response {
        let grant = try form.text("grant") ?? ""
        let reason = try form.text("reason")?.trimmed ?? ""
        guard let standing = try await grants.standing(grant, in: key)?.grant, standing.customerId == ByteString(id)
        else { throw Self.unknownGrant }
        if try form.text("do") == "revoke-now" {
            let outcome = try await grants.revoke(
                grant, of: id, reason: reason, by: visit.session.actor, source: .operator, in: key,
                receivedAt: visit.now)
            return try await response(to: outcome, "revoked", grant, of: id, in: key, visit)
        }
        let end = standing.until.map { "until \($0.longText) UTC" } ?? "without an end"
        return ConsoleResponse.html(
            .ok,
            visit.frame.html(
                ActPage(
                    title: "Take \(standing.entitlement) back from \(id)",
                    effects: [
                        "Customer \(id) of \(key.app) (\(key.environment.rawValue)) was given \(standing.entitlement) "
                            + "\(end), because: \(standing.reason).",
                        "That ends now. What the customer bought, or was given besides, stays.",
                    ], reason: reason, by: visit.session.actor, button: "Take it back",
                    action: Address("customers", id, "grants"), fields: [("do", "revoke-now"), ("grant", grant)],
                    back: visit.frame.customer(id, kind: CustomerKey.Kind.link.rawValue))))
    }

    /// Shows the customer after a grant was stated.
    ///
    /// - Parameter done: What was done with it: `given` or `revoked`.
    private func response(
        to outcome: GrantService.Outcome, _ done: String, _ grant: String, of id: String, in key: StreamKey,
        _ visit: ConsoleRequest
    ) async throws -> Response {
        switch outcome {
        case .stated(let position, _):
            logger.info("grant stored", metadata: ["event.position": "\(position)"])
            // It is done, even if the projections cannot be read now: the page says what it knows.
            _ = try? await log.isProjected(position, of: key, wait: Limits.projectionWaitMax)
            let page = visit.frame.customer(id, kind: CustomerKey.Kind.link.rawValue)
            return ConsoleResponse.seeOther(page.with("done", done).with("grant", grant).text)
        case .otherCustomer: throw ConsoleProblem(.conflict, "Not done", "The grant is one of another customer.")
        case .unknownEntitlement: throw Self.unknownEntitlement
        case .unknownGrant: throw Self.unknownGrant
        }
    }

    /// The fields of the form, as it names them.
    private static let labels = [
        "entitlement": "“Entitlement”", "reason": "“Reason”", "until": "“Or until”", "from": "The start",
    ]
    private static let unknownEntitlement = ConsoleProblem(
        .badRequest, "Not done", "No product of the app gives an entitlement of this name.")
    private static let unknownGrant = ConsoleProblem(.notFound, "Not done", "The customer has no such grant.")

    /// Answers a form for an act on behalf of a customer.
    func acting(
        _ what: String, _ request: Request, _ session: ConsoleSession, at address: Address,
        _ act: (ConsoleQuery, ConsoleRequest) async throws -> Response
    ) async throws -> Response {
        try await changing(what, request, session, needing: .operate, at: address) { form, visit in
            guard acts.isOn else {
                throw ConsoleProblem(.forbidden, "Not done", "Acting for customers is switched off on this server.")
            }
            return try await act(form, visit)
        }
    }
}

extension ConsoleSession {
    /// Who acts, as it is recorded.
    var actor: String { "\(name) (token \(tokenId))" }
}
