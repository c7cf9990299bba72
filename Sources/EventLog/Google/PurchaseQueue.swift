import Encoding
import Postgres
import Subscriptions

/// The purchases of Google Play: which are to be asked about, and what came of the last question about each.
///
/// A record that is kept like the log. Any number of processes may use it: each claims purchases that no other asks about,
/// and a claim ends soon after its process dies.
package struct PurchaseQueue: Sendable {
    let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`; those of `subledger_receiver` suffice for one purchase.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// How much there is to ask, and to acknowledge.
    package struct Backlog: Sendable, Hashable {
        /// The number of purchases that are due, at most ``Limits/dueChecksCountedMax``.
        package let due: Int64
        /// Since when the first of them is due; nil if none is.
        package let dueSince: Instant?
        /// Since when the first unacknowledged purchase is not acknowledged; nil if all are.
        package let unacknowledgedSince: Instant?
    }

    /// Makes purchases due. Durable when this returns. Safe to repeat: a purchase that is due already stays due once.
    package func notice(
        _ notices: [PurchaseToAsk], of app: String, as rank: PurchaseRank = .notice
    ) async throws(ReadError) {
        guard !notices.isEmpty else { return }
        try await pool.run(
            PurchaseStatements.notice, PurchaseStatements.parameters(notices, app, rank),
            within: Limits.commitWaitMax)
    }

    /// Makes those of the purchases due that are not known yet. Safe to repeat.
    package func noticeUnknown(_ notices: [PurchaseToAsk], of app: String) async throws(ReadError) {
        guard !notices.isEmpty else { return }
        try await pool.run(
            PurchaseStatements.noticeUnknown, PurchaseStatements.parameters(notices, app, .again),
            within: Limits.commitWaitMax)
    }

    /// Claims purchases that are due, in the order of their ranks, longest due first.
    ///
    /// - Parameters:
    ///   - ranks: Only these.
    ///   - claimEnd: When other processes may ask, unless the outcome is recorded before.
    package func claimDue(
        of app: String, ranks: [PurchaseRank] = PurchaseRank.allCases, at now: Instant, until claimEnd: Instant,
        limit: Int64
    ) async throws(ReadError) -> [ClaimedPurchase] {
        try await pool.read(
            PurchaseStatements.claimDue,
            [
                Parameter(app), Parameter(now), Parameter(claimEnd), Parameter(limit),
                .array(ranks.map(\.rawValue)),
            ], within: Limits.commitWaitMax
        ) { (rows) throws(PostgresError) -> [ClaimedPurchase] in
            var claims: [ClaimedPurchase] = []
            for row in rows { claims.append(try ClaimedPurchase(row, app: app)) }
            return claims.sorted { ($0.rank.rawValue, $0.noticedAt) < ($1.rank.rawValue, $1.noticedAt) }
        }
    }

    /// Claims a purchase, whether it is due or not.
    ///
    /// - Returns: Nil if another process is asking about it, or if it is not known.
    package func claim(
        _ purchaseToken: String, of app: String, at now: Instant, until claimEnd: Instant
    ) async throws(ReadError) -> ClaimedPurchase? {
        try await pool.read(
            PurchaseStatements.claim,
            [Parameter(app), Parameter(purchaseToken), Parameter(now), Parameter(claimEnd)],
            within: Limits.commitWaitMax
        ) { (rows) throws(PostgresError) -> ClaimedPurchase? in
            guard let row = rows.first else { return nil }
            return try ClaimedPurchase(row, app: app)
        }
    }

    /// Ends a claim without a record: the purchase stays as due as it was.
    ///
    /// - Parameter end: Nobody asks about it before.
    package func release(_ claim: ClaimedPurchase, until end: Instant? = nil) async throws(ReadError) {
        try await pool.run(
            PurchaseStatements.release, [Parameter(claim.app), Parameter(claim.purchaseToken), Parameter(end)],
            within: Limits.commitWaitMax)
    }

    /// Prolongs the claims of purchases whose questions are under way.
    package func keep(_ purchaseTokens: [String], of app: String, until end: Instant) async throws(ReadError) {
        guard !purchaseTokens.isEmpty else { return }
        try await pool.run(
            PurchaseStatements.keep, [Parameter(app), .array(purchaseTokens), Parameter(end)],
            within: Limits.commitWaitMax)
    }

    /// Records what came of a question, and ends the claim. A notice that came meanwhile keeps the purchase due.
    package func record(_ record: PurchaseRecord, of claim: ClaimedPurchase) async throws(ReadError) {
        let (word, at): (String, Instant?) =
            switch record.acknowledgement {
            case .unchanged: ("unchanged", nil)
            case .pending(let since): ("pending", since)
            case .made(let at): ("made", at)
            case .notNeeded: ("not_needed", nil)
            }
        let purchase = [Parameter(claim.app), Parameter(claim.purchaseToken)]
        let recorded = Step(
            PurchaseStatements.record,
            purchase + [
                Parameter(claim.notices), Parameter(record.askedAt), Parameter(record.result.rawValue),
                Parameter(record.environment?.rawValue),
                Parameter(record.resource?.rawValue), Parameter(record.productId), .array(record.settledCustomerIds),
                Parameter(record.failures), Parameter(record.mismatches), Parameter(record.isMet),
                Parameter(record.next?.rank.rawValue), Parameter(record.next?.at), Parameter(word), Parameter(at),
                Parameter(record.position),
            ])
        let check = Step(
            PurchaseStatements.recordCheck,
            purchase + [
                Parameter(record.askedAt), Parameter(record.result.check), Parameter(record.status),
                Parameter(record.position), Parameter(record.next?.at ?? record.plannedAt),
                Parameter(record.result == .gone),
            ])
        let deadline = ContinuousClock.now + Limits.commitWaitMax
        _ = try await pool.using(within: Limits.commitWaitMax) {
            (connection) async throws(PostgresError) -> [RowSet] in
            try await connection.transaction([recorded, check], deadline: deadline)
        }
    }

    /// The purchase with this token, without a claim; nil if it is not known.
    package func find(_ purchaseToken: String, of app: String) async throws(ReadError) -> ClaimedPurchase? {
        try await pool.read(
            PurchaseStatements.find, [Parameter(app), Parameter(purchaseToken)], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> ClaimedPurchase? in
            guard let row = rows.first else { return nil }
            return try ClaimedPurchase(row, app: app)
        }
    }

    /// Those of some tokens that the queue has never seen.
    package func unknown(_ purchaseTokens: [String], of app: String) async throws(ReadError) -> Set<String> {
        guard !purchaseTokens.isEmpty else { return [] }
        return try await pool.read(
            PurchaseStatements.unknown, [Parameter(app), .array(purchaseTokens)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            Set(try rows.map { row throws(PostgresError) in try row.value(String.self, at: 0) })
        }
    }

    /// When the next purchase in the queue can be asked about: when it becomes due, became due, or a claim of it ends; nil if
    /// there is none. Of the claimed ones, only the one that is due longest counts.
    ///
    /// - Parameter ranks: Only these, each of an app.
    package func nextDue(
        of ranks: [(app: String, rank: PurchaseRank)], at now: Instant
    ) async throws(ReadError) -> Instant? {
        try await pool.read(
            PurchaseStatements.nextDue,
            [.array(ranks.map(\.app)), .array(ranks.map(\.rank.rawValue)), Parameter(now)], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Instant? in try rows.first?.optional(at: 0) }
    }

    /// - Parameter isPolled: Whether the planned questions count.
    package func backlog(of app: String, at now: Instant, isPolled: Bool) async throws(ReadError) -> Backlog {
        let planned = isPolled ? try await scheduledBacklog(of: app, at: now) : (due: 0, since: nil)
        return try await pool.read(
            PurchaseStatements.backlog, [Parameter(app), Parameter(now), Parameter(Limits.dueChecksCountedMax)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Backlog in
            let since: Instant? = try rows[0].optional(at: 1)
            return Backlog(
                due: min(try rows[0].value(at: 0) + planned.due, Limits.dueChecksCountedMax),
                dueSince: [since, planned.since].compactMap(\.self).min(),
                unacknowledgedSince: try rows[0].optional(at: 2))
        }
    }
}

extension ClaimedPurchase {
    /// Reads a row with ``PurchaseStatements/columns``.
    fileprivate init(_ row: Row, app: String) throws(PostgresError) {
        let resource: String? = try row.optional(at: 1)
        let environment: String? = try row.optional(at: 3)
        let type: String? = try row.optional(at: 4)
        let eventTime: Instant? = try row.optional(at: 5)
        let rank: Int32? = try row.optional(at: 12)
        guard let customers = try? JSONDocument(try row.value(JSONText.self, at: 14).utf8).root else {
            throw PostgresError(.decoding)
        }
        let customerIds = customers.elements.compactMap(\.string)
        guard let accounts = try? JSONDocument(try row.value(JSONText.self, at: 15).utf8).root else {
            throw PostgresError(.decoding)
        }
        var accountIds: [String: String] = [:]
        for (customer, account) in accounts.members {
            if let customer = customer.string { accountIds[customer] = account.string }
        }
        var notification: PurchaseNotification?
        if let type, let eventTime {
            notification = PurchaseNotification(
                type: type, eventTime: eventTime,
                expectedStates: PurchaseNotification.states(try row.optional(at: 13) ?? ""))
        }
        self.init(
            app: app, purchaseToken: try row.value(at: 0), resource: resource.flatMap(PurchaseResource.init(rawValue:)),
            productId: try row.optional(at: 2), environment: environment.flatMap(Environment.init(rawValue:)),
            notification: notification, mismatches: try row.value(at: 6), failures: try row.value(at: 7),
            notices: try row.value(at: 8), answerPosition: try row.optional(at: 9),
            customerIds: customerIds, accountIds: accountIds,
            unacknowledgedSince: try row.optional(at: 10), noticedAt: try row.value(at: 11),
            rank: rank.flatMap(PurchaseRank.init(rawValue:)) ?? .scheduled)
    }
}
