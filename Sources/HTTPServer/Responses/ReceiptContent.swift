import AppStore
import Encoding
import EventLog
import Readers
import Subscriptions

/// The response about a receipt that was answered or refused.
struct ReceiptContent: Sendable {
    let handIn: HandIn
    /// Nil unless it was answered.
    let purchases: PurchaseContent?

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
        purchases?.write(position: handIn.findings.position, to: &writer)
    }

    /// Nil if Apple did not answer.
    private var checks: ReceiptChecks? {
        guard let status = handIn.findings.status else { return nil }
        let isAnswered = handIn.state == .answered
        return ReceiptChecks(
            stored: ReceiptStatus(number: Int(status)), refusal: isAnswered ? nil : handIn.findings.problem,
            registration: isAnswered
                ? handIn.findings.registration.map { purchases?.registration($0) ?? $0.check } : nil,
            isInForce: isAnswered ? purchases?.isInForce : nil)
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
}

extension HandIn.Registration {
    var check: ReceiptChecks.Registration {
        switch self {
        case .new: .new
        case .known: .known
        case .otherCustomer: .otherCustomer
        }
    }
}
