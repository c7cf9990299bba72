/// Bounds of the projector, each with its reason.
enum Limits {
    /// Most events folded in one transaction: enough to spread its cost, few enough to lose little by a crash.
    static let batchEventsMax: Int64 = 500
    /// Most batches until a stream's leader looks whether there is something else to do: enough that reading ahead pays,
    /// few enough that a server that ends waits for a second at most.
    static let batchesAtOnceMax = 20
    /// Longest time between two looks at the log. Notifications by the database wake the projector at once; this is
    /// the net below them.
    static let pollInterval = Duration.seconds(2)
    /// Longest time for one statement of a batch.
    static let statementWaitMax = Duration.seconds(30)
    /// Longest time for a read.
    static let readWaitMax = Duration.seconds(5)
    /// Pause after a failure before the next try.
    static let failurePause = Duration.seconds(1)
    /// Longest wait for a projector to end its batch. One that folds all lines anew, since products are configured
    /// otherwise, takes its time.
    static let leadWaitMax = Duration.seconds(600)
    /// Longest time for a statement over a whole table: bringing a rebuild's rows to their place, counting lines.
    static let tableWaitMax = Duration.seconds(3600)
    /// Most rounds after which a rebuild has caught up, or swaps all the same: what is left then is folded while the
    /// live projection waits.
    static let rebuildRoundsMax = 10
    /// A rebuild has caught up when a round found no more new events than this.
    static let rebuildLagMax: Int64 = 1000
    /// Most lines that are compared with a fresh fold at the same time.
    static let auditLinesMax = 200
    /// Most ids of one page of lines.
    static let auditIdsMax: Int64 = 10_000
}
