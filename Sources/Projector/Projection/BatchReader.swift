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
    /// The subscriptions under which the events reported transactions that these did not have before.
    let holders: TransactionHolders
    /// In order of position.
    let notices: [CustomerNotice]
    /// Of the products of the subscriptions.
    let gaps: Set<ProductGap>
}

/// Reads events and subscriptions, and folds the events into the subscriptions. Writes nothing.
struct BatchReader: Sendable {
    let pool: PostgresPool
    let streamId: Int32
    let products: ProductCatalog
    let checks: CheckPolicy
    let tables: ProjectionTables
    /// No event after this position is read.
    var last = Int64.max

    /// The next page, with up to twice the limit; nil if there are no more events or the next one cannot be folded.
    func page(after page: EventPage) async -> ProjectionOutcome<EventPage?> {
        guard let last = page.events.last, page.failure == nil, !page.isLast else { return .success(nil) }
        return await self.page(after: last.position, eventsMax: min(page.eventsMax * 2, Limits.batchEventsMax))
            .map { $0.events.isEmpty ? nil : $0 }
    }

    func page(after position: Int64, eventsMax: Int64) async -> ProjectionOutcome<EventPage> {
        // Positions have no gaps.
        let eventsMax = min(eventsMax, last - position)
        guard eventsMax > 0 else {
            return .success(EventPage(start: position, eventsMax: 1, events: [], failure: nil, isLast: true))
        }
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
        var states: [String: ProjectedSubscription]
        switch await load(page.events, unwritten) {
        case .success(let loaded): states = loaded
        case .failure(let failure): return .failure(failure)
        }
        let new = states.newTransactions(in: page.events)
        var holders: TransactionHolders
        switch await loadHolders(of: new, into: &states, unwritten) {
        case .success(let loaded): holders = loaded
        case .failure(let failure): return .failure(failure)
        }
        var before: [String: OwnershipEvidence] = [:]
        for id in states.keys {
            // Already set if an unwritten batch holds the subscription.
            guard var state = states.removeValue(forKey: id) else { continue }
            if state.written == nil { state.written = Subscription(state.facts, products: products) }
            state.isNew = state.position == 0
            state.isTouched = false
            if !state.isNew { before[id] = state.evidence ?? state.facts.ownershipEvidence() }
            states[id] = state
        }
        for event in page.events { event.fold(into: &states, among: &holders) }
        states = states.filter(\.value.isTouched)
        let touched = states.keys.sorted()
        for id in touched {
            if states[id]?.written == nil {
                states[id]?.written = Subscription(SubscriptionFacts(originalTransactionId: id), products: products)
            }
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
                customers: CustomerChanges(page.events, folded, subscriptions, before: before),
                differences: zip(folded, subscriptions).compactMap { state, subscription in
                    SubscriptionDifference(
                        from: state.written, to: subscription, of: state, after: page.start)
                }, holders: new, notices: notices(page.events, folded),
                gaps: gaps(subscriptions)))
    }

    private func gaps(_ subscriptions: [Subscription]) -> Set<ProductGap> {
        var gaps: Set<ProductGap> = []
        for resolved in subscriptions.lazy.flatMap(\.transactions) {
            guard let gap = resolved.gap else { continue }
            gaps.insert(ProductGap(productId: resolved.transaction.productId ?? "", gap: gap))
        }
        return gaps
    }

    /// What the events say about customers besides their facts.
    private func notices(_ events: [FoldableEvent], _ folded: [ProjectedSubscription]) -> [CustomerNotice] {
        let positions = Set(
            events.lazy.filter { $0.factsBySubscription.values.contains(where: \.hasVoids) }.map(\.position))
        var notices = events.compactMap(\.notice)
        if !positions.isEmpty {
            notices += folded.flatMap(\.facts.voidsOfUnknownOrders).filter { positions.contains($0.position) }
        }
        return notices.sorted { $0.position < $1.position }
    }

    /// The subscriptions that the events are about, as before them.
    ///
    /// The facts of Google are about purchases. So their subscriptions are loaded as well, and where purchases turn out to
    /// continue others, all purchases of these: each of them may lead to another subscription afterwards.
    private func load(
        _ events: [FoldableEvent], _ unwritten: [FoldedBatch]
    ) async -> ProjectionOutcome<[String: ProjectedSubscription]> {
        var states: [String: ProjectedSubscription] = [:]
        var wanted = Set(events.flatMap(\.factsBySubscription.keys))
        var purchases: Set<String> = []
        var links = PurchaseSuccession()
        for (id, facts) in events.flatMap(\.factsBySubscription) where facts.isOfPurchase {
            purchases.insert(id)
            for continued in facts.continuedPurchases { links.add(id, to: continued) }
        }
        wanted.formUnion(links.members)
        var asked: Set<String> = []
        while !wanted.isEmpty {
            asked.formUnion(wanted)
            if let failure = await load(wanted, unwritten, into: &states) { return .failure(failure) }
            wanted =
                purchases.isEmpty
                ? [] : states.purchasesToLoad(about: purchases, joining: links).subtracting(asked)
        }
        return .success(states)
    }

    /// Loads the other subscriptions under which transactions of these were reported before, and returns which those are.
    ///
    /// - Parameter new: See ``FoldedBatch/holders``. Only these are looked up: about all others, the facts say it.
    private func loadHolders(
        of new: TransactionHolders, into states: inout [String: ProjectedSubscription], _ unwritten: [FoldedBatch]
    ) async -> ProjectionOutcome<TransactionHolders> {
        var holders = TransactionHolders()
        var wanted: Set<String> = []
        func add(_ transactionId: String, heldBy subscription: String) {
            holders.add(transactionId, heldBy: subscription)
            wanted.insert(subscription)
        }
        for batch in unwritten {
            for transactionId in new.transactionIds {
                for id in batch.holders.holders(of: transactionId) { add(transactionId, heldBy: id) }
            }
        }
        do throws(PostgresError) {
            let stored = Step(
                ProjectionStatements.transactionHolders, [Parameter(streamId), .array(new.transactionIds.sorted())])
            if !new.isEmpty {
                for row in try await query(stored) { add(try row.value(at: 0), heldBy: try row.value(at: 1)) }
            }
        } catch {
            return .failure(.database(error))
        }
        var asked = Set(states.keys)
        for state in states.values { wanted.formUnion(holders.add(state.facts)) }
        while true {
            wanted.subtract(asked)
            if wanted.isEmpty { return .success(holders) }
            asked.formUnion(wanted)
            if let failure = await load(wanted, unwritten, into: &states) { return .failure(failure) }
            wanted = wanted.compactMap { states[$0] }.reduce(into: []) { $0.formUnion(holders.add($1.facts)) }
        }
    }

    /// Loads subscriptions as they are after the unwritten batches. Returns why that failed, or nil.
    private func load(
        _ ids: Set<String>, _ unwritten: [FoldedBatch], into states: inout [String: ProjectedSubscription]
    ) async -> ProjectionError? {
        var missing: [String] = []
        for id in ids.sorted() {
            states[id] = unwritten.reversed().lazy.compactMap { $0.subscriptions[id] }.first
            if states[id] == nil { missing.append(id) }
        }
        switch await load(missing) {
        case .success(let loaded):
            for state in loaded { states[state.facts.originalTransactionId] = state }
            return nil
        case .failure(let failure): return failure
        }
    }

    private func load(_ ids: [String]) async -> ProjectionOutcome<[ProjectedSubscription]> {
        guard !ids.isEmpty else { return .success([]) }
        do throws(PostgresError) {
            return try ProjectedSubscription.read(
                await query(Step(ProjectionStatements.loadSubscriptions, [Parameter(streamId), .array(ids)])))
        } catch {
            return .failure(.database(error))
        }
    }

    /// Reads from the chosen set of tables.
    private func query(_ step: Step) async throws(PostgresError) -> RowSet {
        let steps = [Step(ProjectionStatements.selectTables, [Parameter(tables.rawValue)]), step]
        return try await pool.withConnection(deadline: .now + Limits.statementWaitMax) {
            (connection) async throws(PostgresError) -> RowSet in
            try await connection.transaction(steps, deadline: .now + Limits.statementWaitMax)[1]
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

extension [String: ProjectedSubscription] {
    /// The transactions that events report under subscriptions that did not have them, with these subscriptions.
    fileprivate func newTransactions(in events: [FoldableEvent]) -> TransactionHolders {
        var known: [String: Set<String>] = [:]
        var new = TransactionHolders()
        for (id, facts) in events.lazy.flatMap(\.factsBySubscription) {
            for transactionId in facts.transactionIds {
                let isNew = known[id, default: Set(self[id]?.facts.transactions.keys.map(\.fact.transactionId) ?? [])]
                    .insert(transactionId).inserted
                if isNew { new.add(transactionId, heldBy: id) }
            }
        }
        return new
    }
}
