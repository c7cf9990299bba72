import EventLog
import Subscriptions

/// The place after which a client continues to read the events or changes of a stream. It stays valid across restarts,
/// rebuilds and failovers, and with other filters. After a backup is restored, it is recognized if the backup did not
/// contain what the client has read.
struct StreamCursor: Hashable {
    /// The list that the cursor belongs to; the raw value includes the version of the cursor's format.
    enum List: String {
        case events = "2"
        case changes = "c2"
    }

    let list: List
    let stream: StreamKey
    let place: ReadPlace

    init(_ list: List, stream: StreamKey, _ place: ReadPlace) {
        self.list = list
        self.stream = stream
        self.place = place
    }

    /// Decodes a cursor; nil if ``text`` cannot have this value.
    init?(_ text: String) {
        guard let content = CursorText.decode(text) else { return nil }
        let parts = content.split(separator: " ", maxSplits: 4, omittingEmptySubsequences: false)
        guard parts.count == 5, let list = List(rawValue: String(parts[0])), let number = Int64(parts[1]),
            number >= 0, let environment = Subscriptions.Environment(rawValue: String(parts[3]))
        else { return nil }
        self.init(
            list, stream: StreamKey(app: String(parts[4]), environment: environment),
            ReadPlace(number: number, check: parts[2].isEmpty ? nil : String(parts[2])))
        guard self.text == text else { return nil }
    }

    var text: String {
        CursorText.encode(
            "\(list.rawValue) \(place.number) \(place.check ?? "") \(stream.environment.rawValue) \(stream.app)")
    }
}
