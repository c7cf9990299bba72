/// Bounds of the projector, each with its reason.
enum Limits {
    /// Most events folded in one transaction: enough to spread its cost, few enough that the batches prepared ahead
    /// need little memory.
    static let batchEventsMax: Int64 = 500
    /// Most events in the first of several batches. The first batch is read and folded before anything is written, so
    /// it is small; each later one may hold twice as many events as the one before.
    static let firstBatchEventsMax: Int64 = 125
    /// Most batches in one pipelined run. Progress is returned after a run, and batches of different runs do not
    /// overlap, so a run should be long.
    static let batchesAtOnceMax = 100
    /// Most batches that are folded but not yet written, including the one being written: the next ones are folded
    /// while the write waits for the disk.
    static let batchesAheadMax = 3
    /// Longest time for which one stream is folded while no other stream is due; then the schedule is checked again.
    static let turnMax = Duration.seconds(3)
    /// Shortest such time, so that streams that all lag do not give way after each batch. Below the second within which
    /// the end of a period is published.
    static let turnMin = Duration.milliseconds(300)
    /// Shortest time between the starts of two rounds. One event alone costs the database some milliseconds, most of them
    /// for planning; at a few hundred events a second, four or five are folded for little more. The first event after a
    /// pause does not wait.
    static let foldInterval = Duration.milliseconds(20)
    /// Longest time between two checks of all streams. Notifications name the streams with new events; the sweep
    /// catches what they miss. With ten thousand idle streams it takes about 10 ms.
    static let sweepInterval = Duration.seconds(10)
    /// Pause before a stream that another projector leads is tried again. Together with the time in which the database
    /// notices that a leader is gone, it bounds how long a stream waits for a new leader.
    static let leadRetryPause = Duration.milliseconds(250)
    /// A leader that is silent for this long in the middle of a batch counts as stopped and loses its stream: between
    /// statements by the database's own timer, within a statement by a projector that waits for the stream. A leader
    /// folds a batch in a fraction of this time; one that was only slow repeats its batch.
    static let leaderSilenceMax = Duration.seconds(10)
    /// Longest time until the database notices that a leader is gone.
    static let leaderCheckInterval = Duration.milliseconds(500)
    /// How long a stream may stay at one position while events wait before it is reported as stalled: longer than a
    /// batch, a change of leaders or a restart of the database takes, short enough that operators learn of it before
    /// customers do.
    static let stallAfter = Duration.seconds(60)
    /// How many times in that period the watch checks; each check reads four rows per stream, as a sweep does.
    static let stallLooks = 4
    /// How long the rows of a stream are not rewritten for the same reason as last time. An owner who switches products
    /// back and forth waits at most this long, and an endless loop rewrites them at most 24 times a day.
    static let refoldRepeatPause = Duration.seconds(3600)
    /// Longest wait for a notification to be sent. Listeners also poll.
    static let wakeWaitMax = Duration.seconds(1)
    /// About how many period starts, and as many ends, are published in one transaction: all expirations of a large app
    /// on one day would need much memory and hold up the log.
    static let boundariesAtOnceMax: Int64 = 1000
    /// Longest time for one statement of a batch.
    static let statementWaitMax = Duration.seconds(30)
    /// Longest time for a read.
    static let readWaitMax = Duration.seconds(5)
    /// Pause after a failure before the next try.
    static let failurePause = Duration.seconds(1)
    /// Longest wait for a projector to end its batch. Recomputing all subscriptions after a change of products
    /// or of a policy or limit of an app takes a while.
    static let leadWaitMax = Duration.seconds(600)
    /// Longest wait for a rebuild or skip that is about to finish, or for autovacuum to give way, which takes
    /// PostgreSQL a second.
    static let rebuildClaimWaitMax = Duration.seconds(2)
    /// Longest time for a statement over a whole table, such as one that swaps in the rows of a rebuild or counts
    /// subscriptions.
    static let tableWaitMax = Duration.seconds(3600)
    /// Most rounds of catching up before a rebuild swaps in any case: the remaining events are folded while the live
    /// projection waits.
    static let rebuildRoundsMax = 10
    /// A rebuild has caught up when a round folded at most this many events.
    static let rebuildLagMax: Int64 = 1000
    /// Most events whose subscriptions a worker of a rebuild folds at a time: as many as some batches, so that starting the
    /// statements costs little, in some tens of megabytes.
    static let historyEventsMax = 4000
    /// Most events, for each worker of a rebuild, of which it is kept in memory which subscriptions they mention, in 16 bytes
    /// for each event and subscription and half of that for sorting. For each further part of a longer log, its facts are
    /// read once more.
    static let eventsIndexedMax: Int64 = 4_000_000
    /// Most subscriptions that are compared with a fresh fold at a time.
    static let auditSubscriptionsMax = 1000
    /// Longest time by which the dates of the two notifications about one happening, one of each version, differ. Version
    /// 1 notifications are dated by what they report, signed ones by when Apple signed them.
    static let sourceLagMax = Duration.seconds(3600)
    /// Most ids of customers that are checked at a time.
    static let auditCustomersMax: Int64 = 1000
    /// Most subscriptions whose store accounts are computed again at a time when their account token turns out to be
    /// shared by too many store accounts.
    static let tokenSubscriptionsMax: Int64 = 500
    /// Most linked ids whose store accounts are computed again at a time after a change of the ownership rules.
    static let linkedKeysMax: Int64 = 1000
    /// Most rows in one page of subscription ids or events.
    static let auditIdsMax: Int64 = 10_000
    /// Pause between two looks for products that are not configured, and most of them that are named. A purchase that gives
    /// no access should be known within a minute.
    static let gapPause = Duration.seconds(15)
    static let gapProductsMax: Int64 = 100
}
