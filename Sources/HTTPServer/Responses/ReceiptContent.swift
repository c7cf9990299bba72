import AppStore
import Encoding
import EventLog
import Readers
import Subscriptions

/// The response about a receipt that was answered or refused.
struct ReceiptContent: Sendable {
    let handIn: HandIn
    var at: Instant
    /// Whether the event of the receipt is projected.
    var isProjected = true
    var subscriptions: [SubscriptionReader.Stored] = []
    var entitlements: [Entitlement] = []

    init(handIn: HandIn, at instant: Instant) {
        self.handIn = handIn
        at = instant
    }

    func write(to writer: inout JSONWriter) {
        writer.member("id", handIn.id)
        writer.member("app", handIn.app)
        writer.member("environment", handIn.findings.environment?.rawValue)
        writer.member("customerId", handIn.customerId)
        writer.member("state", handIn.state.rawValue)
        writer.member("problem", handIn.refusal)
        writer.member("askedAt", handIn.askedAt)
        if let checks {
            writer.key("checks")
            checks.write(to: &writer)
        }
        guard handIn.state == .answered else { return }
        writer.member("linked", handIn.findings.isLinked)
        writer.member("position", handIn.findings.position)
        writer.member("projected", isProjected)
        writer.key("subscriptions")
        writer.array(subscriptions) { writer, stored in
            writer.object { writer in
                writer.member("app", handIn.app)
                writer.member("environment", handIn.findings.environment?.rawValue)
                stored.subscription.writeMembers(at: at, to: &writer)
                writer.member("position", stored.position)
            }
        }
        writer.key("entitlements")
        writer.array(entitlements) { $1.write(at: at, to: &$0) }
    }

    /// Nil if Apple did not answer.
    private var checks: ReceiptChecks? {
        guard let status = handIn.findings.status else { return nil }
        let isAnswered = handIn.state == .answered
        let isActive = subscriptions.contains { $0.subscription.isActive(at: at) }
        return ReceiptChecks(
            stored: ReceiptStatus(number: Int(status)), refusal: isAnswered ? nil : handIn.findings.problem,
            registration: isAnswered ? handIn.findings.registration?.check : nil,
            isInForce: isAnswered && handIn.isVisible ? isActive : nil)
    }
}

extension HandIn {
    /// Why the receipt is refused, for people; nil unless it is.
    var refusal: String? {
        guard state == .refused, let problem = findings.problem else { return nil }
        if let status = findings.status {
            let refused = ReceiptRefusal.status(ReceiptStatus(number: Int(status)))
            if refused.label == problem { return refused.description }
        }
        var refusals: [ReceiptRefusal] = [.otherApp, .appMissing, .wrongEnvironment, .appUnknown, .nothingKnown]
        if let environment = findings.environment { refusals.append(.environmentRefused(environment)) }
        return refusals.first { $0.label == problem }?.description
    }

    /// Whether the answer may contain the purchases: not if they belong to another customer and stay with it.
    var isVisible: Bool { !(findings.registration == .otherCustomer && findings.isLinked == false) }
}

extension HandIn.Registration {
    fileprivate var check: ReceiptChecks.Registration {
        switch self {
        case .new: .new
        case .known: .known
        case .otherCustomer: .otherCustomer
        }
    }
}
