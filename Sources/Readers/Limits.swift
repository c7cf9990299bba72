import EventLog

/// Bounds of the readers, each with its reason.
enum Limits {
    /// Most customers looked up in one query, for requests that arrive at the same time.
    static let lookupsAtOnceMax = 100
    /// Most such queries at a time.
    static let lookupQueriesMax = 3
    /// Longest time for which the next query waits for the previous one. The more lookups share a query, the less each
    /// costs, but a query that waits for a page from disk must not hold up all others.
    static let lookupPatience = Duration.milliseconds(10)
    /// Most ids of each kind that a change lists of its customer. Nearly all customers have fewer than ten; the ids of
    /// one with thousands of subscriptions would be megabytes in each of its changes. As many as a backend can link.
    static let changeIdsMax = 100
    /// Longest time for a read.
    static let readWaitMax = EventLog.Limits.readWaitMax
    /// Longest time for a statement that configures products: another session may configure the same ones.
    static let statementWaitMax = Duration.seconds(30)
    /// Longest time between two checks of all streams for changes. Notifications name the streams with new ones; the
    /// sweep catches what they miss.
    static let sweepInterval = Duration.seconds(10)
    /// Pause after a connection failed to listen for changes.
    static let failurePause = Duration.seconds(1)
}
