import AppStore
import Encoding
import EventLog
import Subscriptions

/// The response about purchases that were handed in, or about a receipt that was refused.
struct HandInContent: Sendable {
    let app: String
    let environment: Environment?
    let customerId: String?
    /// Nil unless they are proven.
    let answer: HandInAnswer?
    let receipt: HandIn?
    let purchases: PurchaseContent?

    init(_ answer: HandInAnswer, customerId: String?, _ purchases: PurchaseContent) {
        (app, environment) = (answer.stream.app, answer.stream.environment)
        self.customerId = customerId
        self.answer = answer
        receipt = answer.receipt
        self.purchases = purchases
    }

    init(receipt: HandIn) {
        (app, environment) = (receipt.app, receipt.findings.environment)
        customerId = receipt.customerId
        answer = nil
        self.receipt = receipt
        purchases = nil
    }

    func write(to writer: inout JSONWriter) {
        writer.member("id", receipt?.id)
        writer.member("app", app)
        writer.member("environment", environment?.rawValue)
        writer.member("customerId", customerId)
        writer.member("state", receipt?.state.rawValue ?? answer?.storeState.map { _ in "answered" })
        writer.member("problem", receipt?.refusal)
        writer.member("askedAt", receipt?.askedAt)
        writer.member("storeState", answer?.storeState)
        if let receipt {
            writeChecks(of: receipt, to: &writer)
        } else if answer?.storeState != nil {
            writer.key("checks")
            writer.object { writer in
                writer.member("genuine", true)
                writer.member("ofThisApp", true)
                writer.member("registered", registration?.rawValue)
                writer.member("inForce", purchases?.isInForce)
            }
        } else {
            writer.member("registered", registration?.rawValue)
        }
        purchases?.write(position: answer?.position, to: &writer)
    }

    private var registration: ReceiptChecks.Registration? {
        answer?.registration.map { purchases?.registration($0) ?? $0.check }
    }

    /// None if Apple did not answer.
    private func writeChecks(of receipt: HandIn, to writer: inout JSONWriter) {
        guard let status = receipt.findings.status else { return }
        writer.key("checks")
        ReceiptChecks(
            stored: ReceiptStatus(number: Int(status)), refusal: answer == nil ? receipt.findings.problem : nil,
            registration: registration, isInForce: purchases?.isInForce
        ).write(to: &writer)
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
