import Foundation

/// A connection that reads the change feed as server-sent events.
package final class EventStream {
    private let connection: RawConnection
    private var text = ""

    package struct Event {
        /// The cursor after the event.
        package let id: String
        package let data: String

        /// The data as a JSON object; empty if it is not one.
        package var json: [String: Any] {
            (try? JSONSerialization.jsonObject(with: Data(data.utf8))) as? [String: Any] ?? [:]
        }
    }

    /// - Parameters:
    ///   - lastEventID: The id of the last event that was received.
    ///   - receiveBytesMax: See ``RawConnection/init(port:from:receiveBytesMax:)``.
    /// - Throws: If the connection is refused.
    package init(
        port: Int, token: String, path: String, lastEventID: String? = nil, receiveBytesMax: Int32? = nil
    ) throws {
        connection = try RawConnection(port: port, receiveBytesMax: receiveBytesMax)
        connection.write(
            """
            GET \(path) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\nAccept: text/event-stream\r\n\
            \(lastEventID.map { "Last-Event-ID: \($0)\r\n" } ?? "")\r\n
            """)
    }

    /// The next event, if it has arrived. HTTP framing is skipped: a chunk never ends inside an event.
    package func next() -> Event? {
        while true {
            if let found = text.firstMatch(of: /id: (\S+)\ndata: (.*)\n\n/) {
                let event = Event(id: String(found.output.1), data: String(found.output.2))
                text = String(text[found.range.upperBound...])
                return event
            }
            let more = connection.read()
            if more.isEmpty { return nil }
            text += more
        }
    }
}
