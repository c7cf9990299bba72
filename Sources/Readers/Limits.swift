import EventLog

/// Bounds of the readers, each with its reason.
enum Limits {
    /// Most customers looked up in one query for those who ask one by one: what many ask at the same time.
    static let lookupsAtOnceMax = 100
    /// Most such queries under way, and how long after one was begun the next one may be, if it is not answered by then:
    /// the more gather the less each costs, but one that waits for a page from disk must not hold up all others.
    static let lookupQueriesMax = 3
    static let lookupPatience = Duration.milliseconds(10)
    /// Longest time for a read.
    static let readWaitMax = EventLog.Limits.readWaitMax
    /// Longest time for a statement that configures products: others may configure the same ones.
    static let statementWaitMax = Duration.seconds(30)
    /// Longest time between two looks at the changes of all streams. Notifications name those that have new ones; this is
    /// the net below them.
    static let sweepInterval = Duration.seconds(10)
    /// Pause after a connection failed to listen for changes.
    static let failurePause = Duration.seconds(1)
}
