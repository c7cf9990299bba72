import EventLog
import Postgres
import Subscriptions

/// Publishes the differences between the rows of a stream before and after a rebuild's swap, inside the transaction of
/// the swap.
struct RebuildChanges {
    let streamId: Int32
    let connection: PostgresConnection
    /// The position up to which the live rows were folded. A change caused by a later event is published with that
    /// event as its cause.
    let livePosition: Int64

    func publish(_ changeWriter: inout ChangeWriter) async throws(PostgresError) {
        var after = ""
        while true {
            let rows = try await connection.query(
                RebuildStatements.changedSubscriptions,
                [Parameter(streamId), Parameter(after), Parameter(Limits.batchEventsMax)],
                deadline: .now + Limits.tableWaitMax)
            guard let last = rows.last else { break }
            after = try last.value(at: 0)
            try await publish(
                try rows.map { row throws(PostgresError) -> String in try row.value(at: 0) }, &changeWriter)
            try await changeWriter.write()
        }
        try await changeWriter.write()
    }

    private func publish(_ subscriptions: [String], _ changeWriter: inout ChangeWriter) async throws(PostgresError) {
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
        var (ownersBefore, owners): ([String: [Ownership]], [String: [Ownership]]) = ([:], [:])
        for row in try await connection.query(
            RebuildStatements.changedOwners, [Parameter(streamId), .array(subscriptions)],
            deadline: .now + Limits.tableWaitMax)
        {
            let subscription: String = try row.value(at: 0)
            guard let owned = try Ownership.read(row) else { continue }
            if try row.value(Bool.self, at: 7) { ownersBefore[subscription, default: []].append(owned) }
            if try row.value(Bool.self, at: 8) { owners[subscription, default: []].append(owned) }
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
            changeWriter.add([SubscriptionDifference(from: old, to: new, after: livePosition)]) { _ in .rebuild }
            if try row.value(Bool.self, at: 5) {
                changeWriter.add(
                    owners: owners[subscription] ?? [], after: ownersBefore[subscription] ?? [], of: new,
                    cause: .rebuild)
            }
        }
    }
}
