import Encoding
import Subscriptions

/// A request to the simulated App Store Server API, with its answer.
package struct StoreAPIQuestion: TallyQuestion {
    package let host: Subscriptions.Environment
    /// Nil for a path or a method that Apple does not have.
    package let endpoint: StoreEndpoint?
    /// The id in the path; nil if there is none.
    package let id: String?
    /// See ``StoreAPIFault/name``.
    package let fault: String?
    /// The HTTP status; nil if there was no answer.
    package var status: Int?
    package var errorCode: Int?

    init(host: Subscriptions.Environment, endpoint: StoreEndpoint?, id: String?, fault: String?) {
        self.host = host
        self.endpoint = endpoint
        self.id = id
        self.fault = fault
    }

    /// `"host":…,"endpoint":…,"id":…,"status":…,"errorCode":…,"fault":…`
    package func write(to writer: inout JSONWriter) {
        writer.member("host", host.rawValue)
        writer.member("endpoint", endpoint?.rawValue)
        writer.member("id", id)
        writer.member("status", status)
        writer.member("errorCode", errorCode)
        writer.member("fault", fault)
    }
}
