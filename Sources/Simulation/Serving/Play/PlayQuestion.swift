import Encoding

/// A request to the simulated API, with its answer.
package struct PlayQuestion: TallyQuestion {
    /// Nil for a path or a method that Google does not have.
    package let endpoint: PlayEndpoint?
    /// The purchase token or the order id in the path.
    package let id: String
    /// See ``PlayFault/name``.
    package let fault: String?
    /// The HTTP status; nil if there was no answer.
    package var status: Int?
    package var reason: String?

    /// `"endpoint":…,"id":…,"status":…,"reason":…,"fault":…`
    package func write(to writer: inout JSONWriter) {
        writer.member("endpoint", endpoint?.rawValue)
        writer.member("id", id)
        writer.member("status", status)
        writer.member("reason", reason)
        writer.member("fault", fault)
    }
}
