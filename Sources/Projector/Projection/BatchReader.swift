import EventLog
import Postgres
import Subscriptions

/// Events that follow on each other, as far as they can be folded.
struct EventPage: Sendable {
    /// The position before the first of them.
    let start: Int64
    /// Most that there could be.
    let eventsMax: Int64
    let events: [FoldableEvent]
    /// Why the event after them cannot be folded.
    let failure: ProjectionError?
    /// There was no event after these when they were read.
    let isLast: Bool
}

/// A batch in memory, ready to be written.
struct FoldedBatch: Sendable {
    /// The position before the first event in it.
    let start: Int64
    /// The last event in it.
    let position: Int64
    let products: ProductCatalog
    let subscriptions: [String: ProjectedSubscription]
    let steps: [Step]
    let customers: CustomerChanges
    let differences: [SubscriptionDifference]
}

/// Reads events and subscriptions, and folds the ones into the others. Changes nothing.
struct BatchReader: Sendable {
    let pool: PostgresPool
    let streamId: Int32
    let products: ProductCatalog
    let tables: ProjectionTables

    /// The events after a page, up to twice as many; nil if there are none, or the next cannot be folded.
    func page(after page: EventPage) async -> ProjectionOutcome<EventPage?> {
        guard let last = page.events.last, page.failure == nil, !page.isLast else { return .success(nil) }
        return await self.page(after: last.position, eventsMax: min(page.eventsMax * 2, Limits.batchEventsMax))
            .map { $0.events.isEmpty ? nil : $0 }
    }

    func page(after position: Int64, eventsMax: Int64) async -> ProjectionOutcome<EventPage> {
        do throws(PostgresError) {
            // Decoded on the connection's thread: folding keeps one of Swift's threads busy, and on a small machine
            // there is but one more to begin whatever is next.
            let (count, events, failure) = try await pool.withConnection(deadline: .now + Limits.statementWaitMax) {
                (connection) async throws(PostgresError) -> (Int, [FoldableEvent], ProjectionError?) in
                let rows = try await connection.query(
                    ProjectionStatements.nextEvents,
                    [Parameter(streamId), Parameter(position), Parameter(eventsMax)],
                    deadline: .now + Limits.statementWaitMax)
                let (events, failure) = try Self.decode(rows)
                return (rows.count, events, failure)
            }
            return .success(
                EventPage(
                    start: position, eventsMax: eventsMax, events: events, failure: failure,
                    isLast: Int64(count) < eventsMax))
        } catch {
            return .failure(.database(error))
        }
    }

    /// - Parameter unwritten: The batches before it whose rows may not be there yet, in order.
    func fold(_ page: EventPage, after unwritten: [FoldedBatch]) async -> ProjectionOutcome<FoldedBatch> {
        let touched = Set(page.events.flatMap(\.factsBySubscription.keys)).sorted()
        var states: [String: ProjectedSubscription] = [:]
        states.reserveCapacity(touched.count)
        for id in touched {
            states[id] = unwritten.reversed().lazy.compactMap { $0.subscriptions[id] }.first
        }
        switch await load(touched.filter { states[$0] == nil }) {
        case .success(let loaded):
            for state in loaded { states[state.facts.originalTransactionId] = state }
        case .failure(let failure): return .failure(failure)
        }
        for id in touched {
            let facts = states[id]?.facts ?? SubscriptionFacts(originalTransactionId: id)
            var state = states[id] ?? ProjectedSubscription(facts: facts, position: 0)
            // Of the batches before, it is known already.
            if state.written == nil { state.written = Subscription(facts, products: products) }
            state.isNew = state.position == 0
            states[id] = state
        }
        for event in page.events { event.fold(into: &states) }
        let folded = touched.compactMap { states[$0] }
        let writer = ProjectionWriter(streamId: streamId, products: products, tables: tables)
        let subscriptions = writer.subscriptions(folded)
        for (id, subscription) in zip(touched, subscriptions) { states[id]?.written = subscription }
        return .success(
            FoldedBatch(
                start: page.start, position: page.events.last?.position ?? page.start, products: products,
                subscriptions: states,
                steps: folded.isEmpty ? [] : writer.steps(folded, subscriptions),
                customers: CustomerChanges(page.events, folded, after: page.start),
                differences: zip(folded, subscriptions).compactMap { state, subscription in
                    SubscriptionDifference(
                        from: state.written, to: subscription, after: page.start, position: state.position)
                }))
    }

    private func load(_ ids: [String]) async -> ProjectionOutcome<[ProjectedSubscription]> {
        guard !ids.isEmpty else { return .success([]) }
        let steps = [
            Step(ProjectionStatements.selectTables, [Parameter(tables.rawValue)]),
            Step(ProjectionStatements.loadSubscriptions, [Parameter(streamId), .array(ids)]),
        ]
        do throws(PostgresError) {
            let rows = try await pool.withConnection(deadline: .now + Limits.statementWaitMax) {
                (connection) async throws(PostgresError) -> RowSet in
                try await connection.transaction(steps, deadline: .now + Limits.statementWaitMax)[1]
            }
            return try ProjectedSubscription.read(rows)
        } catch {
            return .failure(.database(error))
        }
    }

    /// The events before the first that cannot be read, and why that one cannot.
    private static func decode(_ rows: RowSet) throws(PostgresError) -> ([FoldableEvent], ProjectionError?) {
        var events: [FoldableEvent] = []
        events.reserveCapacity(rows.count)
        for row in rows {
            switch try FoldableEvent.read(row) {
            case .success(let event): events.append(event)
            case .failure(let failure): return (events, ProjectionError(failure))
            }
        }
        return (events, nil)
    }
}
