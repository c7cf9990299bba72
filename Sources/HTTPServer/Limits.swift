import NIOCore

/// Bounds of the listeners, each with its reason.
package enum Limits {
    /// Largest body taken. V1 bodies hold up to 100 transactions and two receipts that grow with history; none
    /// above 1 MiB is known, and 5 MiB leaves room.
    package static let bodyBytesMax = 5 << 20
    /// Bytes that every body may take. Nearly all of Apple's fit, so that they are taken whatever else goes on.
    static let bodyBytesFree = 32 << 10
    /// Most bytes of one read from a connection: most notifications come in one.
    static let readBytesMax = 32 << 10
    /// Most bytes beyond that of all bodies together, those that wait for their commit included. Whoever comes with
    /// more is told to come again, and memory stays flat.
    static let bodiesBytesMax = 64 << 20
    /// Longest time for a body to arrive. Apple's come at once.
    static let bodyWaitMax = Duration.seconds(15)
    /// Longest time for the rest of a body to arrive when the server ends. What is on its way is there sooner.
    static let bodyWaitAtEndMax = Duration.seconds(1)
    /// A connection on which nothing moves for so long is closed, or a thousand forgotten ones would fill the table.
    static let idleTimeout = TimeAmount.seconds(30)
    /// Most connections of the private listener; more wait to be accepted.
    package static let connectionsMax = 4096
    /// Most of the public one. Each takes some 150 KB while its notification waits for its commit, and a burst is stored
    /// no sooner if more of it is let in.
    static let publicConnectionsMax = 768
    /// Most that wait to be accepted, as far as the system allows so many.
    static let connectionsWaitingMax = 4096
    /// What a sender is told to wait before it comes again. Apple keeps a schedule of its own; proxies and tools obey.
    static let retryAfterSeconds = 5
    /// Most customers of one request for entitlements.
    static let customersMax = 1000
    /// Most issues of one request for content.
    static let issuesMax = 10_000
    /// Page of the event log when the reader names none.
    static let eventsDefault = 100
    /// Page of the change feed when the reader names none.
    static let changesDefault = 100
    /// Largest page of the change feed: each change comes with its customer.
    static let changesMax = 1000
    /// Longest time for which a reader of the change feed waits for news, below what proxies and clients put up with.
    static let changeWaitMax = Duration.seconds(60)
    /// A stream of changes that has nothing to tell says so, so that both ends know that the other one is there.
    static let streamSilenceMax = Duration.seconds(15)
    /// Longest time for a reader to take what it is sent. Nothing is kept for one that does not: it is dropped, and comes
    /// again with its cursor.
    static let streamWriteMax = Duration.seconds(10)
    /// A stream of changes ends after so long, and its reader comes again: with a token that is still in force.
    static let streamMax = Duration.seconds(900)
}
