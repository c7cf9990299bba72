import EventLog
import Postgres
import Subscriptions

/// Consecutive events, up to the first that cannot be folded.
struct EventPage: Sendable {
    /// The position before the first event.
    let start: Int64
    /// The limit that the page was read with.
    let eventsMax: Int64
    let events: [FoldableEvent]
    /// Why the event after these cannot be folded; nil if it can, or was not read.
    let failure: ProjectionError?
    /// The log ended with this page when it was read.
    let isLast: Bool
}

/// A batch in memory, ready to be written.
struct FoldedBatch: Sendable {
    /// The position before the first event.
    let start: Int64
    /// The position of the last event.
    let position: Int64
    let products: ProductCatalog
    let subscriptions: [String: ProjectedSubscription]
    let steps: [Step]
    let customers: CustomerChanges
    let differences: [SubscriptionDifference]
}

/// Reads events and subscriptions, and folds the events into the subscriptions. Writes nothing.
struct BatchReader: Sendable {
    let pool: PostgresPool
    let streamId: Int32
    let products: ProductCatalog
    let checks: CheckPolicy
    let tables: ProjectionTables

    /// The next page, with up to twice the limit; nil if there are no more events or the next one cannot be folded.
    func page(after page: EventPage) async -> ProjectionOutcome<EventPage?> {
        guard let last = page.events.last, page.failure == nil, !page.isLast else { return .success(nil) }
        return await self.page(after: last.position, eventsMax: min(page.eventsMax * 2, Limits.batchEventsMax))
            .map { $0.events.isEmpty ? nil : $0 }
    }

    func page(after position: Int64, eventsMax: Int64) async -> ProjectionOutcome<EventPage> {
        do throws(PostgresError) {
            // Decode on the connection's thread: folding occupies one of Swift's threads, and a small machine has only
            // one other to start the next steps.
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

    /// - Parameter unwritten: Earlier batches whose rows may not be in the tables yet, in order.
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
        var before: [String: OwnershipEvidence] = [:]
        for id in touched {
            let facts = states[id]?.facts ?? SubscriptionFacts(originalTransactionId: id)
            var state = states[id] ?? ProjectedSubscription(facts: facts, position: 0)
            // Already set if an unwritten batch holds the subscription.
            if state.written == nil { state.written = Subscription(facts, products: products) }
            state.isNew = state.position == 0
            if !state.isNew { before[id] = state.evidence ?? facts.ownershipEvidence() }
            states[id] = state
        }
        for event in page.events { event.fold(into: &states) }
        for id in touched {
            let evidence = states[id]?.facts.ownershipEvidence()
            states[id]?.evidence = evidence
        }
        let folded = touched.compactMap { states[$0] }
        let writer = ProjectionWriter(streamId: streamId, products: products, checks: checks, tables: tables)
        let subscriptions = writer.subscriptions(folded)
        for (id, subscription) in zip(touched, subscriptions) { states[id]?.written = subscription }
        return .success(
            FoldedBatch(
                start: page.start, position: page.events.last?.position ?? page.start, products: products,
                subscriptions: states,
                steps: folded.isEmpty ? [] : writer.steps(folded, subscriptions),
                customers: CustomerChanges(page.events, folded, before: before),
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

    /// The events before the first unreadable one, and why that one cannot be read.
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
