/// A message that another session sent with `notify`.
package struct ServerNotification: Sendable, Hashable {
    package let channel: String
    package let payload: String
    /// The process id of the sender's backend, to distinguish own messages from others.
    package let senderPID: Int32
}
