/// The place up to which a client has read the events or changes of a stream.
///
/// A restored backup lacks the last events and changes, and their numbers are assigned again. The check value shows
/// whether what has the number now is what the client has read.
package struct ReadPlace: Sendable, Hashable {
    /// Before the first event or change.
    package static let start = ReadPlace(number: 0)

    /// The position of the last event read, or the number of the last change.
    package let number: Int64
    /// 16 hexadecimal digits of a digest of the event or change with ``number``; nil if a client states only a number,
    /// or if nothing has been read.
    package let check: String?

    package init(number: Int64, check: String? = nil) {
        self.number = number
        self.check = check
    }

    /// Whether a client that has read up to this place can continue after what has its number now.
    package func precedes(_ found: ReadPlace) -> Bool {
        number == found.number && (check == nil || check == found.check)
    }
}
