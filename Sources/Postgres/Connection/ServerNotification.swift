/// A message that another session sent with `notify`.
package struct ServerNotification: Sendable, Hashable {
    package let channel: String
    package let payload: String
}
