import Encoding
import EventLog
import HTTPServer
import Logging
import Postgres

/// The services that append to the log: a receiver's notifications, the customer links, receipts and signed transactions
/// that backends send to a reader, and what a poller's checks find.
package struct AppenderServices {
    let service: AppenderService
    let durability: DurabilityWatch
    let partitions: BodyPartitions
    let archive: ArchiveWatch

    package var appender: Appender { service.appender }

    /// The conditions that must be ok to store events.
    var health: [HealthCheck] {
        [
            .appending(appender), .durability(durability), .notificationQueue(durability), .bodies(partitions),
            .archive(archive),
        ]
    }

    /// - Returns: Nil for a process that appends nothing: a projector, or a reader that cannot append.
    static func make(
        _ roles: Set<ServerRole>, hasApps: Bool, database: Database, now: @escaping @Sendable () -> Instant,
        logger: Logger
    ) async throws -> AppenderServices? {
        // A poller has the rights of a receiver, or it does not start.
        if !roles.contains(.receiver), !roles.contains(.poller) {
            guard roles.contains(.reader) else { return nil }
            guard try await database.stoppingOnError({ try await database.readerMayAppend() }) else {
                logger.notice(
                    "customer links, receipts and signed transactions disabled: database user lacks role subledger_receiver, or database is read-only"
                )
                return nil
            }
            if !hasApps {
                logger.notice("customer links, receipts and signed transactions disabled: no app is configured")
            }
        }
        let pool = database.pool(for: .appending, logger: logger)
        let durability = DurabilityWatch(pool: pool, basis: database.durability.basis, logger: logger)
        let appender = Appender(pool: pool, durability: durability, logger: logger)
        let partitions = BodyPartitions(pool: pool, now: now, logger: logger)
        // A database that was restored from an old backup has none for this month.
        await partitions.make()
        return AppenderServices(
            service: AppenderService(appender: appender), durability: durability, partitions: partitions,
            archive: ArchiveWatch(pool: pool, archive: database.archive, logger: logger))
    }
}
