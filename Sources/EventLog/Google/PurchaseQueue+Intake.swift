import Encoding
import Postgres
import Subscriptions

/// The way of notifications from the log into the queue. The log is what is durable when a notification is answered: the
/// queue follows it, in its order.
extension PurchaseQueue {
    /// Where a stream has notifications that the queue has not taken in.
    package struct Intake: Sendable, Hashable {
        package let streamId: Int32
        package let stream: StreamKey
        /// Notifications up to this position are taken in.
        package let position: Int64
        /// The last position of the stream.
        package let head: Int64
    }

    /// A notification of the log.
    package struct StoredNotification: Sendable {
        package let streamId: Int32
        package let position: Int64
        package let receivedAt: Instant
        /// The evidence of the event.
        package let body: [UInt8]
    }

    /// The streams of the apps whose log goes on after what was taken in.
    package func intakes(of apps: [String]) async throws(ReadError) -> [Intake] {
        try await pool.read(
            PurchaseStatements.intakes, [.array(apps)], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> [Intake] in
            var intakes: [Intake] = []
            for row in rows {
                guard let environment = Environment(rawValue: try row.value(at: 2)) else { continue }
                intakes.append(
                    Intake(
                        streamId: try row.value(at: 0),
                        stream: StreamKey(app: try row.value(at: 1), environment: environment),
                        position: try row.value(at: 3), head: try row.value(at: 4)))
            }
            return intakes
        }
    }

    /// The next notifications to take in, in the order of their positions.
    ///
    /// - Returns: At most ``Limits/intakeEventsMax``, and up to which position all are among them.
    package func notifications(
        after intake: Intake
    ) async throws(ReadError) -> (notifications: [StoredNotification], through: Int64) {
        let last = min(intake.head, intake.position + Limits.scannedEventsMax)
        return try await pool.readBodies(
            PurchaseStatements.notifications,
            [
                Parameter(intake.streamId), Parameter(intake.position), Parameter(last),
                Parameter(Limits.intakeEventsMax),
            ], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> ([StoredNotification], Int64) in
            var found: [StoredNotification] = []
            for row in rows {
                found.append(
                    StoredNotification(
                        streamId: intake.streamId, position: try row.value(at: 0), receivedAt: try row.value(at: 1),
                        body: try row.value(at: 2)))
            }
            return (found, found.count == Int(Limits.intakeEventsMax) ? found.last?.position ?? last : last)
        }
    }

    /// Makes purchases due and moves the intake on, both or neither. Does nothing if another process has moved it on.
    ///
    /// - Parameters:
    ///   - purchases: Different ones.
    ///   - pending: Notifications that say more than an answer does, with the tokens of their purchases.
    package func takeIn(
        _ purchases: [PurchaseToAsk], pending: [(purchaseToken: String, position: Int64)], after intake: Intake,
        through position: Int64
    ) async throws(ReadError) {
        try await pool.run(
            PurchaseStatements.takeIn,
            PurchaseStatements.parameters(purchases, intake.stream.app, .notice)
                + [
                    Parameter(intake.streamId), Parameter(intake.position), Parameter(position),
                    .array(pending.map(\.purchaseToken)), .array(pending.map(\.position)),
                ],
            within: Limits.commitWaitMax)
    }

    /// The notifications about a purchase that say more than an answer does, and that no event in its stream states yet.
    package func pendingNotifications(of claim: ClaimedPurchase) async throws(ReadError) -> [StoredNotification] {
        try await pool.readBodies(
            PurchaseStatements.pendingNotifications, [Parameter(claim.app), Parameter(claim.purchaseToken)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> [StoredNotification] in
            var found: [StoredNotification] = []
            for row in rows {
                found.append(
                    StoredNotification(
                        streamId: try row.value(at: 3), position: try row.value(at: 0),
                        receivedAt: try row.value(at: 1), body: try row.value(at: 2)))
            }
            return found
        }
    }

    /// Makes the comparison with an app's list of voided purchases due before its time. Does nothing before the first one,
    /// which is due anyway.
    package func requestVoids(of app: String, at now: Instant) async throws(ReadError) {
        try await pool.run(
            PurchaseStatements.requestVoids, [Parameter(app), Parameter(now)], within: Limits.commitWaitMax)
    }

    /// Records that events state what some notifications say. Safe to repeat.
    package func remove(_ notifications: [StoredNotification], of claim: ClaimedPurchase) async throws(ReadError) {
        guard !notifications.isEmpty else { return }
        try await pool.run(
            PurchaseStatements.remove,
            [
                Parameter(claim.app), Parameter(claim.purchaseToken), .array(notifications.map(\.streamId)),
                .array(notifications.map(\.position)),
            ], within: Limits.commitWaitMax)
    }
}
