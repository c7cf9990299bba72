/// Limits of the event log, each with its reason.
package enum Limits {
    /// Maximum number of events per commit. Above a few hundred, a larger batch gains nothing and delays its senders.
    package static let batchEventsMax = 256
    /// Maximum body bytes per commit, so that a batch needs little memory. A single larger body is accepted.
    package static let batchBytesMax = 4 << 20
    /// Maximum number of events in the queue: a few seconds of work. Beyond it, senders receive 503 and retry.
    package static let queueEventsMax = 4096
    /// Maximum body bytes in the queue, so that large bodies cannot exhaust the memory.
    package static let queueBytesMax = 64 << 20
    /// Longest wait in the queue, and longest duration of a commit. Their sum is the longest wait for a response, below
    /// the 30 seconds after which Apple was observed to time out.
    package static let queueWaitMax = Duration.seconds(5)
    package static let commitWaitMax = Duration.seconds(5)
    /// Longest duration of a notification to the projector, which also polls every few seconds.
    package static let notifyWaitMax = Duration.seconds(2)
    /// After this many consecutive failed batches, or failures for this long, the server reports that it cannot store
    /// events. A single lost connection does not count as that.
    static let failedBatchesMax = 3
    static let failingTimeMax = Duration.seconds(5)
    /// How long a failed batch affects the health check. Longer than the usual interval of a load balancer.
    static let failureAgeMax = Duration.seconds(30)
    /// Maximum number of claims of seats that stand of one subscription. Its facts name each claim, and are written again with
    /// every event about it: 5,000 are some 750 kB.
    package static let seatClaimsMax = 5000
    /// Maximum number of events per page of the log.
    package static let pageEventsMax = 1000
    /// Maximum number of events read for a page with a filter, so that any page takes at most tenths of a second.
    package static let scannedEventsMax: Int64 = 20_000
    /// Events of one query of a scan that ends by the clock: some 5 ms, and tens of them if they are read from a disk.
    static let scanStepEvents: Int64 = 500
    /// Interval of the checks of the durability settings. For this long, notifications may be acknowledged after a
    /// setting was switched off. A check takes less than a millisecond.
    package static let durabilityLookTime = Duration.seconds(5)
    /// The share of PostgreSQL's notification queue that may be in use. Usually it is almost empty.
    package static let notificationQueueUsageMax = 0.1
    /// Interval at which partitions for bodies are made. Months are long; a failed attempt is repeated soon enough.
    package static let partitionsLookTime = Duration.seconds(600)
    /// Months after the current one that have a partition for bodies. An operator who is away for two does no harm.
    package static let partitionsAhead = 3
    /// How far our clock may be ahead of the database's clock when changes are published. Synchronized clocks differ by
    /// less, and a change is published at most this much too early.
    static let clockAheadMax = Duration.seconds(1)
    /// Longest duration of a read.
    package static let readWaitMax = Duration.seconds(5)
    /// Maximum number of due checks that are counted, so that a count after a long outage takes milliseconds, not
    /// seconds.
    package static let dueChecksCountedMax: Int64 = 100_000
    /// Maximum number of due checks among which the next end of a claim is looked for.
    static let claimsCountedMax: Int64 = 1000
    /// How long after a question a purchase is not made due by its schedule, which may not know of the question yet.
    static let recordedCheckAgeMin = Duration.seconds(60)
    /// Maximum number of failed checks in a row that are counted. The pause after a failure has long reached its maximum.
    static let failedChecksCountedMax: Int64 = 20
    /// Maximum number of requests of operators about a subscription or product that are read, with their answers. The store
    /// accepts two extensions a year.
    package static let writesMax: Int64 = 100
    /// How long a request with an idempotency key is taken to be under way if it has no answer: longer than a store is waited
    /// for, all calls and pauses included. After that, its process has ended, and the request may be sent again.
    static let writeUnderWayMax = Duration.seconds(300)
    /// Maximum number of events that are read at a time for purchases whose history is to be read. Some version 1
    /// notifications name a hundred.
    static let backfillEventsMax: Int64 = 100
    /// Maximum number of notifications of Google Play that enter the queue of questions at a time, so that each step takes
    /// tenths of a second.
    static let intakeEventsMax: Int64 = 500
    /// A process that leads streams and has not reported for this long loses them: it has died, its machine is frozen, or
    /// the network cut. Twice the interval of the reports.
    static let leaseTime = Duration.seconds(10)
    /// A lease is renewed at most this often: each round asks who leads.
    static let leaseRenewalPause = Duration.seconds(2)
    /// If a process has not been able to find out for this long who leads some work, the condition `leaders` says so. Longer
    /// than a failover takes.
    static let unledTimeMax = Duration.seconds(60)
    /// Most events that one change of the quarantine deletes, so that it takes milliseconds. More than what the largest
    /// body displaces, if the others have the usual size.
    static let quarantineDroppedMax: Int64 = 1000
    /// Maximum number of active tokens. A backend needs one or two, and a server keeps all of them in memory.
    package static let tokensMax = 1000
    /// Maximum age of a server's cached tokens. For this long, a revoked token may still be accepted.
    package static let tokensAgeMax = Duration.seconds(1)
    /// How long a migration waits for another instance that is migrating, or for sessions that use its tables.
    package static let migrateWaitMax = Duration.seconds(300)
    /// Between two attempts to lock what a migration changes. The sessions that wait for it run meanwhile.
    static let migrateRetryPause = Duration.seconds(1)
    /// Longest duration of a step of a migration. Building an index on a large log takes hours at most.
    static let migrationStepMax = Duration.seconds(86_400)
    /// How often a migration says how far a long step is.
    package static let migrationWatchInterval = Duration.seconds(10)
    /// Maximum number of events and of body bytes per page of an audit, so that memory use stays small: each worker has two
    /// pages. A single larger body is accepted.
    package static let auditPageEventsMax = 500
    package static let auditPageBytesMax = 8 << 20
    /// Maximum number of events that one worker of an audit checks before it takes others.
    package static let auditRangeEventsMax = 2000
    /// The same for events as links of the hash chain, which have no bodies.
    package static let auditPageLinksMax = 10_000
    /// Longest duration of an audit statement. Only the operator waits for it.
    package static let auditWaitMax = Duration.seconds(600)
    /// Bodies that `subledger archive` reads at a time; their bytes have the limit of a page of an audit.
    static let archivePageBodiesMax = 500
    /// How often it tries to drop the partition of a month, while other sessions use the table, and the pause between.
    static let archiveDropAttemptsMax = 10
    static let archiveDropPause = Duration.seconds(2)
    /// Interval at which the server looks whether each archive file is there. Nobody reads most of them for years.
    package static let archiveLookTime = Duration.seconds(600)
    /// Events that an erasure looks through at a time.
    static let erasurePageEvents = 10_000
    /// Longest step of an erasure. The operator waits for it, and while the streams are locked, their notifications.
    static let erasureWaitMax = Duration.seconds(600)
    /// For how long a store can report a subscription whose renewal is off, or that it gave up, after its end: notifications
    /// are repeated for six and a half days.
    static let erasureEndedSeconds: Int64 = 7 * 86_400
    /// The same for every other subscription: a failed renewal is tried again for up to 90 days, and a pause takes up to three
    /// months.
    static let erasureFailedSeconds: Int64 = 100 * 86_400
    /// Longest session of the console: a working day.
    package static let consoleSessionMax = Duration.seconds(8 * 3600)
    /// A session that was not used for this long ends: a browser may be left alone.
    package static let consoleIdleMax = Duration.seconds(3600)
    /// How long a one-time login can be used.
    package static let consoleTicketMax = Duration.seconds(3600)
    /// Events that become tiles in one transaction: tens of milliseconds.
    static let treeStepEvents: Int64 = 16 * 256
    /// Between two looks for events that are not in the trees yet. A checkpoint is at most this much and one look older
    /// than the log; proofs need none that is younger.
    package static let treePause = Duration.seconds(10)
    /// Maximum size of a note and number of its signatures, so that reading one takes little. C2SP demands at least 16.
    static let noteBytesMax = 64 << 10
    static let noteSignaturesMax = 64
}
