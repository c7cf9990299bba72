import AppStore
import Encoding
import EventLog
import Readers
import Subscriptions

/// The part of a response that shows purchases which were handed in, as the projections have them.
struct PurchaseContent: Sendable {
    let stream: StreamKey
    let at: Instant
    /// Whether the events of the purchases are projected.
    let isProjected: Bool
    let subscriptions: [SubscriptionReader.Stored]
    let entitlements: [Entitlement]
    /// Whether the customer owns all of the purchases; nil without a customer.
    let isLinked: Bool?

    /// Whether one of the purchases gives access, or units of a consumable, as their status says. Nil if another customer
    /// keeps them, and while what was appended is not projected, so that the answer cannot contradict itself.
    var isInForce: Bool? {
        guard isLinked != false, isProjected else { return nil }
        return subscriptions.contains { stored in
            stored.subscription.isActive(at: at) || stored.subscription.consumables(at: at) ?? 0 > 0
        }
    }

    /// How the purchases were known, as far as the customer may know.
    func registration(_ registration: HandIn.Registration) -> ReceiptChecks.Registration {
        isLinked == false ? .otherCustomer : registration.check
    }

    /// - Parameter position: Of the event that was appended; nil if none was.
    func write(position: Int64?, to writer: inout JSONWriter) {
        writer.member("linked", isLinked)
        writer.member("position", position)
        writer.member("projected", isProjected)
        writer.key("subscriptions")
        writer.array(subscriptions) { writer, stored in
            writer.object { writer in
                writer.member("app", stream.app)
                writer.member("environment", stream.environment.rawValue)
                stored.subscription.writeMembers(at: at, to: &writer)
                writer.member("position", stored.position)
            }
        }
        writer.key("entitlements")
        writer.array(entitlements) { $1.write(at: at, to: &$0) }
    }
}

/// Reads what the projections say about purchases that were handed in.
struct PurchaseReader: Sendable {
    let subscriptions: SubscriptionReader
    let customers: CustomerReader
    let now: @Sendable () -> Instant

    /// Returns the purchases of an answer, and the entitlements of the customer who handed them in; without a customer,
    /// those that the purchases grant.
    ///
    /// What belongs to another customer is left out.
    ///
    /// - Parameter isProjected: Whether the events of the purchases are projected. Then the projections say what is linked.
    func content(
        of answer: HandInAnswer, customerId: String?, isProjected: Bool
    ) async throws -> PurchaseContent {
        let (instant, ids, stream) = (now(), answer.subscriptions, answer.stream)
        var isLinked = answer.isLinked
        if isProjected, isLinked == true, let customerId, !ids.isEmpty {
            isLinked = try await subscriptions.areOwned(ids, by: customerId, in: stream, at: instant)
        }
        let stored = isLinked == false ? [] : try await subscriptions.subscriptions(ids, in: stream)
        // A purchase on Google Play that continues an earlier one is part of that one's subscription.
        let found = try await subscriptions.leading(stored, in: stream)
        let granted =
            if let customerId {
                try await entitlements(of: customerId, in: stream, at: instant)
            } else {
                try await customers.entitlements(of: found.map(\.subscription), app: stream.app, at: instant)
            }
        return PurchaseContent(
            stream: stream, at: instant, isProjected: isProjected, subscriptions: found, entitlements: granted,
            isLinked: isLinked)
    }

    private func entitlements(
        of customerId: String, in stream: StreamKey, at instant: Instant
    ) async throws -> [Entitlement] {
        let reference = CustomerReader.Reference(
            app: stream.app, environment: stream.environment, id: customerId, kind: .link)
        let answer = try await customers.entitlements(CustomerReader.Question(reference, at: instant))
        // With an app and a kind, an id leads to at most one customer.
        guard case .found(let found) = answer else { return [] }
        return found.entitlements
    }
}
