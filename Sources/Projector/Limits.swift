/// Bounds of the projector, each with its reason.
enum Limits {
    /// Most events folded in one transaction: enough to spread its cost, few enough to lose little by a crash.
    static let batchEventsMax: Int64 = 500
    /// Longest time between two looks at the log. Notifications by the database wake the projector at once; this is
    /// the net below them.
    static let pollInterval = Duration.seconds(2)
    /// Longest time for one statement of a batch.
    static let statementWaitMax = Duration.seconds(30)
    /// Longest time for a read.
    static let readWaitMax = Duration.seconds(5)
    /// Pause after a failure before the next try.
    static let failurePause = Duration.seconds(1)
}
