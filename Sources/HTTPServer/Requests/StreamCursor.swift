import Subscriptions

/// The position after which a client continues to read the events or changes of a stream. It stays valid across
/// restarts and rebuilds, and with other filters. After a backup is restored, positions that it did not contain are
/// assigned again.
struct StreamCursor: Hashable {
    /// The list that the cursor belongs to; the raw value includes the version of the cursor's format.
    enum List: String {
        case events = "1"
        case changes = "c1"
    }

    let list: List
    let stream: StreamKey
    /// The last one read: the position of an event, or the number of a change.
    let position: Int64

    init(_ list: List, stream: StreamKey, position: Int64) {
        self.list = list
        self.stream = stream
        self.position = position
    }

    /// Decodes a cursor; nil if ``text`` cannot have this value.
    init?(_ text: String) {
        guard let content = CursorText.decode(text) else { return nil }
        let parts = content.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, let list = List(rawValue: String(parts[0])), let position = Int64(parts[1]),
            position >= 0, let environment = Subscriptions.Environment(rawValue: String(parts[2]))
        else { return nil }
        self.init(list, stream: StreamKey(app: String(parts[3]), environment: environment), position: position)
        guard self.text == text else { return nil }
    }

    var text: String {
        CursorText.encode("\(list.rawValue) \(position) \(stream.environment.rawValue) \(stream.app)")
    }
}
