import Postgres
import Subscriptions

/// Tells how the rows of a stream differ from what they were before a rebuild's swap, inside its transaction.
struct RebuildChanges {
    let streamId: Int32
    let connection: PostgresConnection
    /// Up to where the live rows were folded: what is behind it is told as of its event.
    let livePosition: Int64

    func tell(_ telling: inout ChangeTelling) async throws(PostgresError) {
        var after = ""
        while true {
            let rows = try await connection.query(
                RebuildStatements.changedSubscriptions,
                [Parameter(streamId), Parameter(after), Parameter(Limits.batchEventsMax)],
                deadline: .now + Limits.tableWaitMax)
            guard let last = rows.last else { break }
            after = try last.value(at: 0)
            try await tell(try rows.map { row throws(PostgresError) -> String in try row.value(at: 0) }, &telling)
            try await telling.write()
        }
        try await telling.write()
    }

    private func tell(_ subscriptions: [String], _ telling: inout ChangeTelling) async throws(PostgresError) {
        var (before, now): ([String: [AccessPeriod]], [String: [AccessPeriod]]) = ([:], [:])
        for row in try await connection.query(
            RebuildStatements.changedPeriods, [Parameter(streamId), .array(subscriptions)],
            deadline: .now + Limits.tableWaitMax)
        {
            let subscription: String = try row.value(at: 0)
            guard let period = try AccessPeriod.read(row, at: 1) else { continue }
            if try row.value(Bool.self, at: 8) { before[subscription, default: []].append(period) }
            if try row.value(Bool.self, at: 9) { now[subscription, default: []].append(period) }
        }
        for row in try await connection.query(
            RebuildStatements.changedIntentions, [Parameter(streamId), .array(subscriptions)],
            deadline: .now + Limits.tableWaitMax)
        {
            let subscription: String = try row.value(at: 0)
            let old = SubscriptionSnapshot(
                originalTransactionId: subscription, access: (before[subscription] ?? []).inOrder,
                autoRenewStatus: try row.optional(at: 1), plannedProductId: try row.optional(at: 2))
            let new = SubscriptionSnapshot(
                originalTransactionId: subscription, access: (now[subscription] ?? []).inOrder,
                autoRenewStatus: try row.optional(at: 3), plannedProductId: try row.optional(at: 4))
            telling.add([SubscriptionDifference(from: old, to: new, after: livePosition)]) { _ in .rebuild }
            if try row.value(Bool.self, at: 5) { telling.addCustomer(of: subscription, because: .rebuild) }
        }
    }
}
