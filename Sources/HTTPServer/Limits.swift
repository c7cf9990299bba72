import NIOCore

/// Limits of the listeners, each with its reason.
package enum Limits {
    /// Largest body accepted. V1 bodies contain up to 100 transactions and two receipts that grow with history; none
    /// above 1 MiB is known, and 5 MiB leaves room.
    package static let bodyBytesMax = 5 << 20
    /// Largest body with a receipt. Receipts have at most ``AppStore/Receipt/bytesMax`` bytes, and JSON may escape each
    /// of their slashes.
    static let receiptBodyBytesMax = 6 << 20
    /// Largest body with signed data of a device: the most transactions of one request have less than 1 MiB.
    static let transactionsBodyBytesMax = 2 << 20
    /// Largest body with a purchase of Google Play: a signed one has about 1 KiB, and JSON escapes its quotes.
    static let purchaseBodyBytesMax = 64 << 10
    /// Bytes that every body may use. Nearly all of Apple's bodies fit, so they are accepted under any load.
    static let bodyBytesFree = 32 << 10
    /// Most bytes of one read from a connection: most notifications arrive in one.
    static let readBytesMax = 32 << 10
    /// Most bytes beyond ``bodyBytesFree`` of all bodies together, to bound memory. Further large bodies receive 503.
    static let bodiesBytesMax = 64 << 20
    /// Beyond this many bytes, a growing body displaces the large one that has been arriving longest, so that a few
    /// slow senders cannot occupy the room. The remaining bytes are for bodies that grow before the displaced one is
    /// freed.
    static let bodiesBytesDisplacing = 48 << 20
    /// Longest time from a request's head to the end of its body. Apple's bodies arrive immediately.
    static let bodyWaitMax = TimeAmount.seconds(15)
    /// Longest time for the rest of a body to arrive during shutdown. A body in transit arrives sooner.
    static let bodyWaitAtEndMax = TimeAmount.seconds(1)
    /// A connection is closed after this time without a complete request head, or if its peer does not read its
    /// response.
    static let idleTimeout = TimeAmount.seconds(30)
    /// How long, and for how many bytes, a connection is read after its last response if the peer had not sent its
    /// whole request: long enough for a peer with a slow network to receive the response, short enough to free the
    /// place.
    static let lingerMax = TimeAmount.seconds(1)
    static let lingerBytesMax = 5 << 20
    /// Most connections of the private listener; more wait to be accepted.
    static let privateConnectionsMax = 4096
    /// Most connections of the public listener. Each uses about 150 KB while its notification waits for its commit, and
    /// accepting more of a burst does not store it sooner.
    static let publicConnectionsMax = 768
    /// The number of connections from one address beyond which a new one displaces another from the same address. A
    /// proxy and all backends that use one count as one address; both limits can be configured.
    package static let publicConnectionsPerAddress = 256
    package static let privateConnectionsPerAddress = 1024
    /// One place in this many is reserved for connections that wait for a response or are being closed: new connections
    /// displace idle ones before the table is full, since closing takes a moment.
    static let reservedPlacesDivisor = 16
    /// A new connection is not displaced for another address's before this time: its request is on its way, and on a busy
    /// server it is read some tenths of a second later.
    static let newcomerWaitMin = TimeAmount.milliseconds(250)
    /// Most connections that are accepted and not read yet: enough to accept a burst without a pause for each, few
    /// enough to be set up within milliseconds.
    static let startingConnectionsMax = 16
    /// Most connections that wait to be accepted; the system may allow fewer.
    static let connectionsWaitingMax = 4096
    /// The value of `Retry-After`. Apple has its own schedule; proxies and tools follow the header.
    static let retryAfterSeconds = 5
    /// Longest time for the database to respond to a health check. Load balancers and probes time out after one to five
    /// seconds, and treat a late response as a failure.
    static let healthWaitMax = Duration.seconds(2)
    /// Longest time for which a health report is reused, so that any number of requests causes one query of the
    /// database.
    static let healthAgeMax = Duration.milliseconds(500)
    /// Most log lines of refused requests per reason and second. Further ones are counted: otherwise an unauthenticated
    /// sender could cause 60 GB of log lines a day.
    static let refusalLinesPerSecond = 10
    /// Most names of unknown fields in a log line, and characters of each. In an unsigned stream, any sender chooses
    /// them.
    static let loggedNamesMax = 10
    static let loggedNameCharactersMax = 64
    /// Limits of a stream of Xcode or local tests. Its notifications are unsigned, so anyone can forge them; together
    /// they may use 1 GiB of the disk that production shares. A developer produces about a hundred notifications of
    /// 10 KB a day.
    static let localBodyBytesMax = 32 << 10
    static let localEventsMax: Int64 = 32_768
    static let localEventsPerSecond = 10
    static let localBurstEventsMax = 100
    /// Largest push of Google Play without authentication; Google's have about 1 KiB. And how many bytes of them are stored
    /// for an app: a burst, and some 170 MB a day on average.
    static let openPushBytesMax = 8 << 10
    static let openPushBytesPerSecond = 2 << 10
    static let openPushBurstBytesMax = 64 << 20
    /// Digests of notifications in quarantine that are remembered, so that a repetition costs no query, and for how long.
    static let quarantineDigestsMax = 4096
    static let quarantineDigestAgeMax = Duration.seconds(3600)
    /// Most notifications that wait to be stored in the quarantine, which has one connection to the database. Further ones
    /// receive 503 at once, as the others do later: they must not hold the listener's connections.
    static let quarantineWaitingMax = 16
    /// Hand-ins of a customer, to each of the addresses: a restore of hundreds of purchases, and then one per second. And how
    /// many customers are counted at a time. A request counts as one for each ten signed texts, of which a list has at most 100:
    /// each is verified and looked up by itself.
    static let handInBurstMax = 300
    static let handInsPerSecond = 1
    static let handInCustomersMax = 50_000
    /// Purchases of a customer that change hands by hand-ins: all that a large one has, and then some per second. A move of
    /// 10,000 purchases keeps the projector of the app busy for some seconds.
    static let movedPurchaseBurstMax = 10_000
    static let movedPurchasesPerSecond = 25
    static let handInTexts = 10
    static let handInTextsCounted = 100
    /// Signatures of offers for one app: a signature takes less than a millisecond, and an app needs one for each customer who
    /// looks at an offer.
    static let offerSignaturesPerSecond = 100
    static let offerSignatureBurstMax = 1000
    /// Largest body of a request for a signature, and the longest text in it: Apple's ids have at most 100 characters.
    static let offerBodyBytesMax = 8 << 10
    static let offerTextBytesMax = 255
    /// Order numbers of customers that are looked up at one store: support needs a few a minute, and each may be a question
    /// within the store's budget.
    static let orderQuestionsPerSecond = 1
    static let orderQuestionBurstMax = 60
    /// Most rows of a request that imports purchases, and its largest body: a thousand ids, or a few receipts.
    package static let importRowsMax = 1000
    static let importBodyBytesMax = 6 << 20
    /// After this time, such a request asks no store any more. The other rows are to be sent again.
    static let importWaitMax = Duration.seconds(20)
    /// How long a hand-in waits until its event is projected, which usually takes tenths of a second.
    static let projectionWaitMax = Duration.seconds(3)
    static let projectionLookInterval = Duration.milliseconds(50)
    /// Interval at which the bounds of the quarantine are enforced if no notification arrives for it.
    static let quarantineInterval = Duration.seconds(3600)
    /// Pause before the server tries again to take notifications in from the quarantine.
    static let quarantinePause = Duration.seconds(5)
    /// Longest validity of a signed answer: a device without network keeps access for a week, and a refund takes effect after
    /// a week at the latest.
    static let signedAnswerMax = Duration.seconds(604_800)
    /// Validity of a signed answer without an entitlement.
    static let signedNothingMax = Duration.seconds(3600)
    /// Requests with publishable tokens from one address, which may be that of a proxy or of a provider's many customers, and
    /// how many addresses are counted at a time.
    static let appRequestsPerSecond = 200
    static let appRequestBurstMax = 2000
    static let appAddressesMax = 50_000
    /// Requests of one app user, of which an app makes a few when it starts.
    static let userRequestsPerSecond = 2
    static let userRequestBurstMax = 300
    /// Requests of apps that the public listener answers at a time: a third of its connections, so that notifications always
    /// have the others. Of one address, a part of its connections; of one user, a few devices that start at once.
    static let appRequestsAtOnceMax = 256
    static let appPlacesDivisor = 4
    static let userRequestsAtOnceMax = 8
    /// Largest assertion about a user, and how long one may be valid: it is made for one launch of the app.
    static let assertionBytesMax = 4096
    static let assertionMax = Duration.seconds(3600)
    /// Most customers of one request for entitlements.
    static let customersMax = 1000
    /// Page size of the ids of a customer if the request does not set one; nearly all customers have fewer.
    static let customerIdsDefault = 100
    /// Largest page of the ids of a customer.
    static let customerIdsMax = 1000
    /// Entries of a customer's history if the request does not set their number; nearly all customers have fewer.
    static let historyDefault = 100
    /// Most entries of a customer's history in one response.
    static let historyMax = 1000
    /// Most issues of one request for content.
    static let issuesMax = 10_000
    /// Page size of the event log if the request does not set one.
    static let eventsDefault = 100
    /// Refund requests in one response.
    static let requestsMax = 100
    /// Most attempts of an endpoint in a response.
    static let attemptsMax = 100
    /// Page size of the change feed if the request does not set one.
    static let changesDefault = 100
    /// Largest page of the change feed: each change includes its customer.
    static let changesMax = 1000
    /// Most bytes of the changes in one response: each change includes its customer, whose entitlements may list
    /// thousands of subscriptions. A single larger change is sent by itself.
    static let changesBytesMax = 4 << 20
    /// Longest time for which a request waits for a change; shorter than the usual timeouts of proxies and clients.
    static let changeWaitMax = Duration.seconds(60)
    /// Longest time without data on a stream of changes. After it, a comment is sent, so that both ends notice a broken
    /// connection.
    static let streamSilenceMax = Duration.seconds(15)
    /// Longest time for a client to accept data of a stream. Data is not buffered beyond that: the connection is
    /// closed, and the client resumes with its cursor.
    static let streamWriteMax = Duration.seconds(10)
    /// A stream of changes ends after this time, so that the client reconnects and its token is checked again.
    static let streamMax = Duration.seconds(900)
    /// Largest form of the console: a product with its entitlements.
    static let consoleFormBytesMax = 64 << 10
    /// Largest form with a file whose access is compared: about 30,000 customers. Larger ones are for the command.
    static let consoleComparisonBytesMax = 2 << 20
    /// Longest time for such a comparison: a browser waits for it, and a connection of the readers' pool works on it.
    static let consoleComparisonWaitMax = Duration.seconds(20)
    /// Such comparisons at once: each holds a connection of the readers' pool and a processor, which other readers need.
    static let consoleComparisonsMax = 2
    /// Differences that are explained and listed: an explanation takes milliseconds, and a row has 300 bytes.
    static let consoleDifferencesMax = 200
    /// Longest key of a request that may be repeated: a UUID has 36 bytes, and what others accept ends at 255.
    static let idempotencyKeyBytesMax = 255
    /// A reason is a line for people, as of the commands.
    static let consoleReasonBytesMax = 500
    /// Refund requests of a stream on a page.
    static let consoleRefundsMax = 200
    /// Streams in which the page of refund requests looks for some that wait. Each is a look-up of milliseconds.
    static let consoleRefundStreamsMax = 50
    /// Longest parameter of a page. Ids of customers have at most 256 bytes; a page to return to is longer.
    static let consoleTextBytesMax = 4096
    /// Pause after a failed login. A token has 256 random bits, so this is against scripts that fill the log.
    package static let consoleLoginPause = Duration.seconds(1)
    /// Other streams with the id of a customer whose active entitlements its page names: each costs a few queries.
    static let consoleElsewhereMax = 3
    /// Events and history entries on a page of the console: with links, a row has about 700 bytes, a page 100 KB.
    static let consoleRows = 100
    /// For finding the events of a page of the console that a filter selects. The rest is a link.
    static let consoleScanTime = Duration.milliseconds(50)
    /// Most entitlements that a page explains: with all reasons, one has up to 4 KB. Others are links.
    static let consoleExplanations = 6
    /// Longest time for which the first page waits for each figure. It says which ones take longer.
    static let consoleFigureWait = Duration.milliseconds(250)
    /// Days of a figure if the request names none.
    static let consoleFigureDays: Int64 = 90
}
