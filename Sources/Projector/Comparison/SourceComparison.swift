import Encoding
import EventLog
import Postgres
import Subscriptions

/// Compares the access periods that follow from unsigned sources alone, which are version 1 and answers about receipts,
/// with those that follow from signed sources alone.
///
/// A subscription is compared from the first signed event about a purchase that has not expired, because a signed event
/// reports one purchase, and unsigned ones the whole history. It is compared until one kind of source ends, see
/// ``SourceCoverage``. The projector may run meanwhile; the comparison does not depend on its progress.
package struct SourceComparison: Sendable {
    private let connection: PostgresConnection
    private let subscriptionsAtOnceMax: Int

    /// - Parameters:
    ///   - connection: Has the rights of a reader.
    ///   - subscriptionsAtOnceMax: How many subscriptions are indexed at a time. The log is read once for each such
    ///     part.
    package init(
        connection: PostgresConnection, subscriptionsAtOnceMax: Int = ProjectionAudit.subscriptionsAtOnceMax
    ) {
        self.connection = connection
        self.subscriptionsAtOnceMax = subscriptionsAtOnceMax
    }

    /// Numbers of subscriptions.
    package struct Counts: Sendable, Hashable {
        /// Known from both kinds of sources in the same time.
        package var compared = 0
        /// The compared ones with different periods.
        package var differing = 0
        /// Known from both kinds, but never at the same time.
        package var apart = 0
        package var onlyUnsigned = 0
        package var onlySigned = 0
    }

    private struct Stream {
        let id: Int32
        let app: String
        let environment: String
        let head: Int64
        let products: ProductCatalog
    }

    /// The facts about one subscription, by kind of source.
    private struct Sides {
        var unsigned: SubscriptionFacts
        var signed: SubscriptionFacts
        /// True if any event of the kind mentions the subscription, also one that is too late to be compared.
        var isUnsignedKnown = false
        var isSignedKnown = false
        /// When the comparison begins: signed events report the current purchase from then on. Nil if they do not.
        var signedSince: Instant?
        /// Includes the answers about this subscription.
        var coverage: SourceCoverage

        init(_ id: String, _ coverage: SourceCoverage) {
            self.coverage = coverage
            unsigned = SubscriptionFacts(originalTransactionId: id)
            signed = SubscriptionFacts(originalTransactionId: id)
        }

        mutating func add(_ event: FoldableEvent, _ facts: StatedFacts, isSigned: Bool) {
            if isSigned { isSignedKnown = true } else { isUnsignedKnown = true }
            guard let last = coverage.lastEventMax, event.statedAt <= last else { return }
            if isSigned {
                if let since = facts.currentPurchaseSince(event.statedAt) {
                    signedSince = min(signedSince ?? since, since)
                }
                event.fold(facts, into: &signed)
            } else {
                event.fold(facts, into: &unsigned)
            }
        }
    }

    /// Compares all subscriptions of an app.
    ///
    /// - Parameter onDifference: Called with each subscription that differs.
    /// - Returns: Nil if the log has no stream of the app.
    package func compare(app: String, onDifference: (SourceDifference) -> Void) async throws -> Counts? {
        let rows = try await query(Step(ComparisonStatements.streams, [Parameter(app)]), Limits.statementWaitMax)
        guard rows.count > 0 else { return nil }
        var counts = Counts()
        for row in rows {
            let stream = Stream(
                id: try row.value(at: 0), app: app, environment: try row.value(at: 1), head: try row.value(at: 2),
                products: ProductCatalog(configured: try row.optional(at: 3) ?? ""))
            try await compare(stream, &counts, onDifference)
        }
        return counts
    }

    private func compare(
        _ stream: Stream, _ counts: inout Counts, _ onDifference: (SourceDifference) -> Void
    ) async throws {
        let counted = try await query(
            Step(AuditStatements.countSubscriptions, [Parameter(stream.id)]), Limits.tableWaitMax)
        let subscriptions: Int64 = try counted[0].value(at: 0)
        let perPart = UInt64(subscriptionsAtOnceMax)
        let parts = max(1, (UInt64(subscriptions) + perPart - 1) / perPart)
        for part in 0..<parts {
            var index = MentionIndex(part: part, of: parts, seed: 0)
            let coverage = try await read(stream, into: &index)
            var rest = index.uncheckedEvents[...]
            while !rest.isEmpty {
                let first = try await events(Array(rest.prefix(Limits.auditSubscriptionsMax)), stream)
                rest = rest.dropFirst(Limits.auditSubscriptionsMax)
                let ids = Set(first.flatMap(\.event.factsBySubscription.keys)).filter { index.isUnchecked($0) }
                for (id, sides) in try await fold(ids, stream, index, coverage).sorted(by: { $0.key < $1.key }) {
                    if let difference = compare(id, sides, stream, &counts) { onDifference(difference) }
                }
                index.markChecked(ids)
            }
        }
    }

    /// Reads the log up to the head, in pages.
    private func read(_ stream: Stream, into index: inout MentionIndex) async throws -> SourceCoverage {
        var coverage = SourceCoverage()
        var last: Int64 = 0
        while true {
            try Task.checkCancellation()
            let rows = try await query(
                Step(
                    ComparisonStatements.mentions,
                    [Parameter(stream.id), Parameter(last), Parameter(stream.head), Parameter(Limits.auditIdsMax)]),
                Limits.statementWaitMax)
            for row in rows {
                last = try row.value(at: 0)
                if try row.value(Bool.self, at: 3) {
                    coverage.add(try row.value(at: 2), isSigned: try row.value(at: 1))
                }
                index.add(last, about: try Self.subscriptions(row, at: 4))
            }
            if rows.count < Limits.auditIdsMax { break }
        }
        index.sort()
        return coverage
    }

    private static func subscriptions(_ row: Row, at column: Int) throws -> [String] {
        try JSONDocument(try row.value(JSONText.self, at: column).utf8).root.elements.compactMap(\.string)
    }

    /// Reads the events of some subscriptions twice: until when each is covered must be known before events are folded.
    private func fold(
        _ ids: Set<String>, _ stream: Stream, _ index: MentionIndex, _ coverage: SourceCoverage
    ) async throws -> [String: Sides] {
        var sides: [String: Sides] = [:]
        for id in ids { sides[id] = Sides(id, coverage) }
        let positions = index.events(about: ids, upTo: stream.head)
        for page in Self.pages(positions) {
            let rows = try await query(
                Step(ComparisonStatements.answers, [Parameter(stream.id), .array(Array(page))]),
                Limits.statementWaitMax)
            for row in rows {
                for id in try Self.subscriptions(row, at: 2) {
                    sides[id]?.coverage.add(try row.value(at: 1), isSigned: try row.value(at: 0))
                }
            }
        }
        for page in Self.pages(positions) {
            for (event, isSigned) in try await events(Array(page), stream) {
                for (id, facts) in event.factsBySubscription { sides[id]?.add(event, facts, isSigned: isSigned) }
            }
        }
        return sides
    }

    private static func pages(_ positions: [Int64]) -> [ArraySlice<Int64>] {
        stride(from: 0, to: positions.count, by: Int(Limits.batchEventsMax)).map { start in
            positions[start...].prefix(Int(Limits.batchEventsMax))
        }
    }

    private func compare(
        _ id: String, _ sides: Sides, _ stream: Stream, _ counts: inout Counts
    ) -> SourceDifference? {
        guard sides.isUnsignedKnown, sides.isSignedKnown else {
            if sides.isSignedKnown { counts.onlySigned += 1 } else { counts.onlyUnsigned += 1 }
            return nil
        }
        guard let end = sides.coverage.end, let start = sides.signedSince, start < end,
            !sides.unsigned.positions.isEmpty
        else {
            counts.apart += 1
            return nil
        }
        counts.compared += 1
        let difference = SourceDifference(
            app: stream.app, environment: stream.environment, originalTransactionId: id, from: start, until: end,
            unsigned: .init(sides.unsigned, products: stream.products, from: start, until: end),
            signed: .init(sides.signed, products: stream.products, from: start, until: end))
        guard !difference.unsigned.gives(sameAs: difference.signed) else { return nil }
        counts.differing += 1
        return difference
    }

    /// The events at some positions, those of unsigned sources first. An event that cannot be folded has no facts.
    private func events(
        _ positions: [Int64], _ stream: Stream
    ) async throws(PostgresError) -> [(event: FoldableEvent, isSigned: Bool)] {
        var events: [(event: FoldableEvent, isSigned: Bool)] = []
        for (statement, isSigned) in [
            (ComparisonStatements.unsignedEvents, false), (ComparisonStatements.signedEvents, true),
        ] {
            let rows = try await query(
                Step(statement, [Parameter(stream.id), .array(positions)]), Limits.statementWaitMax)
            for row in rows { events.append((try FoldableEvent.readOrEmpty(row), isSigned)) }
        }
        return events
    }

    private func query(_ step: Step, _ limit: Duration) async throws(PostgresError) -> RowSet {
        try await connection.query(step, deadline: .now + limit)
    }
}
