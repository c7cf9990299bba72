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
    /// Most bytes beyond that of all bodies together, so that memory stays flat. Further large bodies are answered 503.
    static let bodiesBytesMax = 64 << 20
    /// From so many on, a growing body displaces the large one that has been arriving longest, so that a few slow
    /// senders cannot keep the room. The rest is for the bodies that grow until the displaced one is gone.
    static let bodiesBytesDisplacing = 48 << 20
    /// Longest time from a request's head to the end of its body. Apple's come at once.
    static let bodyWaitMax = TimeAmount.seconds(15)
    /// Longest time for the rest of a body to arrive when the server ends. A body on its way arrives sooner.
    static let bodyWaitAtEndMax = TimeAmount.seconds(1)
    /// A connection without a whole request head, or whose peer reads nothing of its answer, is closed after so long.
    static let idleTimeout = TimeAmount.seconds(30)
    /// How long, and for how many bytes, a connection is still read after its last answer when the peer had not sent
    /// its whole request: long enough for a peer on a slow line to see the answer, short enough to hold no place.
    static let lingerMax = TimeAmount.seconds(1)
    static let lingerBytesMax = 5 << 20
    /// Most connections of the private listener; more wait to be accepted.
    static let privateConnectionsMax = 4096
    /// Most of the public one. Each takes some 150 KB while its notification waits for its commit, and a burst is
    /// stored no sooner if more of it is let in.
    static let publicConnectionsMax = 768
    /// Connections of one address beyond which a new one displaces one of its own. A proxy is one address, and so are
    /// the backends behind one; both limits can be set.
    package static let publicConnectionsPerAddress = 256
    package static let privateConnectionsPerAddress = 1024
    /// One of so many places is kept for connections that are being answered or closed: new connections displace idle
    /// ones before the table is full, since closing takes a moment.
    static let reservedPlacesDivisor = 16
    /// How long a connection whose place is needed may still be read.
    static let lastReadWait = TimeAmount.milliseconds(5)
    /// Most that wait to be accepted, as far as the system allows so many.
    static let connectionsWaitingMax = 4096
    /// How long a sender is asked to wait before it comes again. Apple keeps a schedule of its own; proxies and tools
    /// obey.
    static let retryAfterSeconds = 5
    /// Longest time for the database to answer a health check. Load balancers and probes give up after one to five
    /// seconds, and a check that is late is a failure for them too.
    static let healthWaitMax = Duration.seconds(2)
    /// Oldest that the answer to a health check may be, so that any number of them costs one look at the database.
    static let healthAgeMax = Duration.milliseconds(500)
    /// Most log lines of refused requests for one reason and second. The rest is counted: a stranger could write 60 GB
    /// a day.
    static let refusalLinesPerSecond = 10
    /// Most names of unknown fields in a log line, and characters of each. In a stream that nobody signs, anybody
    /// chooses them.
    static let loggedNamesMax = 10
    static let loggedNameCharactersMax = 64
    /// Bounds of a stream of Xcode or local tests, whose notifications anybody can make up: together 1 GiB of the disk
    /// that production uses too. A developer's whole day is some hundred notifications of 10 KB.
    static let localBodyBytesMax = 32 << 10
    static let localEventsMax: Int64 = 32_768
    static let localEventsPerSecond = 10
    static let localBurstEventsMax = 100
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
    /// Most bytes of the changes of one answer: a customer may have thousands of subscriptions, and comes with each
    /// change. One larger change passes.
    static let changesBytesMax = 4 << 20
    /// Longest time for which a reader of the change feed waits for news, below what proxies and clients put up with.
    static let changeWaitMax = Duration.seconds(60)
    /// A stream of changes that has nothing to send says so, so that both ends know that the other one is there.
    static let streamSilenceMax = Duration.seconds(15)
    /// Longest time for a reader to take what it is sent. Nothing is kept for one that does not: it is dropped, and
    /// comes again with its cursor.
    static let streamWriteMax = Duration.seconds(10)
    /// A stream of changes ends after so long, and its reader comes again: with a token that is still in force.
    static let streamMax = Duration.seconds(900)
}
