import Console
import EventLog
import Readers
import Subscriptions

extension ConsoleRoutes {
    func events(_ visit: ConsoleRequest) async throws -> Outcome {
        let stream = try visit.someStream()
        guard let environment = Environment(rawValue: stream.environment) else {
            throw ConsoleProblem(.notFound, "No such stream", "The environment is of a newer release.")
        }
        let query = visit.query
        let filter = EventFilter(
            type: try query.text("type"), kind: try query.text("kind"), source: try query.text("source"),
            receivedFrom: try query.instant("receivedFrom", label: "Received from"),
            receivedUntil: try query.instant("receivedUntil", label: "Received until"))
        let isFiltered = filter != EventFilter()
        let limit = Limits.consoleRows
        // Without a filter, the first page shows the latest events; with one, the search begins at the first event.
        let after = try query.number("after") ?? (isFiltered ? 0 : max(0, stream.head - Int64(limit)))
        switch try await log.events(
            of: StreamKey(app: stream.app, environment: environment), after: ReadPlace(number: after), limit: limit,
            filter: filter, scanTime: isFiltered ? Limits.consoleScanTime : nil)
        {
        case .page(let page):
            return .page(EventsPage(page: page, filter: filter, after: after, limit: limit, address: visit.address))
        case .noStream: throw ConsoleProblem(.notFound, "No such stream", "No event has arrived.")
        case .replaced: throw ConsoleProblem(.serviceUnavailable, "The log has changed", "Load the page again.")
        case .beyondHead(let head):
            throw ConsoleProblem(
                .notFound, "After the end", "The log ends at position \(head).",
                choices: [("The latest events", visit.frame.here(Address("events")))])
        }
    }

    func event(_ visit: ConsoleRequest, position: String) async throws -> Outcome {
        let stream = try visit.someStream()
        guard let number = Int64(position), number > 0, let record = try await reader.event(number, in: stream) else {
            throw ConsoleProblem(
                .notFound, "No such event", "The log of \(stream.text) ends at position \(stream.head).",
                choices: [("The latest events", visit.frame.here(Address("events")))])
        }
        var effects: [CustomerReader.Effect]?
        if let id = record.event.lines.first, number <= stream.folded, record.skip == nil,
            let environment = Environment(rawValue: stream.environment)
        {
            let key = StreamKey(app: stream.app, environment: environment)
            effects = try await customers.effects(of: number, on: id, in: key)
        }
        return .page(
            SingleEventPage(
                record: record, effects: effects, names: try await reader.productNames(of: [stream.app]),
                head: stream.head, folded: stream.folded, address: visit.address))
    }
}
