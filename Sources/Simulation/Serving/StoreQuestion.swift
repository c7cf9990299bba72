import Encoding
import Subscriptions

/// A request to the simulated store, with its answer.
package struct StoreQuestion: TallyQuestion {
    package let host: Subscriptions.Environment
    /// The SHA-256 of the receipt, as hexadecimal digits; nil if the request had none.
    package let receipt: String?
    /// See ``StoreFault/name``.
    package let fault: String?
    /// The original transaction ids of the receipt's Apple Account. Empty if the answer names none.
    package var subscriptions: [String] = []
    /// Nil if there was no answer.
    package var status: Int?

    init(host: Subscriptions.Environment, receipt: String?, fault: String?) {
        self.host = host
        self.receipt = receipt
        self.fault = fault
    }

    /// `"host":…,"receipt":…,"subscriptions":[…],"status":…,"fault":…`
    package func write(to writer: inout JSONWriter) {
        writer.member("host", host.rawValue)
        writer.member("receipt", receipt)
        writer.key("subscriptions")
        writer.array(subscriptions) { $0.value($1) }
        writer.member("status", status)
        writer.member("fault", fault)
    }
}
