/// Bounds of the projector, each with its reason.
enum Limits {
    /// Most events folded in one transaction: enough to spread its cost, few enough that those ahead fit into little
    /// memory.
    static let batchEventsMax: Int64 = 500
    /// As many in the first of several batches, which are read and folded before anything is written; each of those
    /// after it may have twice as many as the one before.
    static let firstBatchEventsMax: Int64 = 125
    /// Most batches that are folded, written and read side by side before it is said how far they are. At their end
    /// nothing is side by side, so they should be many.
    static let batchesAtOnceMax = 100
    /// Most batches that are folded and not yet written, the one that is being written among them: the next ones are
    /// made while that waits for the disk.
    static let batchesAheadMax = 3
    /// Longest time for which a stream is folded while nobody else is known to wait; then the others are looked at.
    static let turnMax = Duration.seconds(3)
    /// Shortest, so that streams that are all behind do not give way after each batch. Below the second in which
    /// the end of a period is published.
    static let turnMin = Duration.milliseconds(300)
    /// Longest time between two looks at all streams. Notifications name those that have new events; this is the net
    /// below them, and ten thousand idle streams make it a matter of 10 ms.
    static let sweepInterval = Duration.seconds(10)
    /// Pause until a stream that another projector leads is looked at again. With the time in which the database
    /// notices that a leader is gone, it bounds how long a stream waits for another one.
    static let leadRetryPause = Duration.milliseconds(250)
    /// After so long without a word in the middle of a batch a leader counts as stopped, and loses its stream: between
    /// statements to the database's own timer, within one to whoever would lead instead. It folds a batch in a fraction
    /// of this, and one that was only slow begins it again.
    static let leaderSilenceMax = Duration.seconds(10)
    /// Longest time until the database notices that the leader that it works for is gone.
    static let leaderCheckInterval = Duration.milliseconds(500)
    /// How long a stream may stand still while events wait before that is reported: longer than a batch, a change of
    /// leaders and a restart of the database take, shorter than anybody should learn it from customers.
    static let stallAfter = Duration.seconds(60)
    /// How often in that time the watch looks: each look reads four rows a stream, as a sweep does.
    static let stallLooks = 4
    /// How long the rows of a stream are not written all over again for the reason for which they were written last. An
    /// owner who configures products back and forth waits so long at worst, and a loop writes them 24 times a day.
    static let refoldRepeatPause = Duration.seconds(3600)
    /// Longest wait to notify those that listen: they look by themselves as well.
    static let wakeWaitMax = Duration.seconds(1)
    /// About how many beginnings and ends of periods are published in one transaction, of each: a day's expiries of a
    /// large app at once would need memory and hold up the log.
    static let boundariesAtOnceMax: Int64 = 1000
    /// Longest time for one statement of a batch.
    static let statementWaitMax = Duration.seconds(30)
    /// Longest time for a read.
    static let readWaitMax = Duration.seconds(5)
    /// Pause after a failure before the next try.
    static let failurePause = Duration.seconds(1)
    /// Longest wait for a projector to end its batch. One that folds all subscriptions anew, since products are
    /// configured otherwise, takes its time.
    static let leadWaitMax = Duration.seconds(600)
    /// Longest wait for a rebuild or a skip that ends at this moment, or for autovacuum to give way, for which
    /// PostgreSQL takes a second.
    static let rebuildClaimWaitMax = Duration.seconds(2)
    /// Longest time for a statement over a whole table: bringing a rebuild's rows to their place, counting
    /// subscriptions.
    static let tableWaitMax = Duration.seconds(3600)
    /// Most rounds after which a rebuild has caught up, or swaps all the same: what is left then is folded while the
    /// live projection waits.
    static let rebuildRoundsMax = 10
    /// A rebuild has caught up when a round found no more new events than this.
    static let rebuildLagMax: Int64 = 1000
    /// Most subscriptions that are compared with a fresh fold at the same time.
    static let auditSubscriptionsMax = 1000
    /// Most customers that are checked at the same time.
    static let auditCustomersMax: Int64 = 1000
    /// Most ids of one page of subscriptions.
    static let auditIdsMax: Int64 = 10_000
}
