/// A message that another session sent with `notify`.
package struct Notification: Sendable, Hashable {
    package let channel: String
    package let payload: String
    /// The sender's process on the server, to tell one's own messages from others'.
    package let senderPID: Int32
}
