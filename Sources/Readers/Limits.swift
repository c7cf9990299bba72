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
    /// Customers of a file that are compared in one query.
    static let comparedCustomers = 1000
    /// Most ids of each kind that a change lists of its customer. Nearly all customers have fewer than ten; the ids of
    /// one with thousands of subscriptions would be megabytes in each of its changes. As many as a backend can link.
    static let changeIdsMax = 100
    /// Longest time for a read.
    static let readWaitMax = EventLog.Limits.readWaitMax
    /// Longest time for a statement that configures products: another session may configure the same ones.
    static let statementWaitMax = Duration.seconds(30)
    /// Longest time for a batch of an export, beside a server on a slow disk. An analyst's queries may take as long.
    static let exportBatchWaitMax = Duration.seconds(300)
    /// Longest time for the import of a report, or for its comparison with a log of many years.
    static let reportWaitMax = Duration.seconds(1800)
    /// Rows of a report in one statement: some megabytes.
    static let reportBatchRows = 2000
    /// A file of rates for decades of days.
    static let importWaitMax = Duration.seconds(120)
    /// Longest time between two checks of all streams for changes. Notifications name the streams with new ones; the
    /// sweep catches what they miss.
    static let sweepInterval = Duration.seconds(10)
    /// Pause after a connection failed to listen for changes.
    static let failurePause = Duration.seconds(1)
    /// Most hits of a search that are listed. An id has a few; more are a sign of test data.
    static let searchHitsMax = 100
    /// Most events of a customer or subscription that a page of the console reads: a page of 100 KB shows fewer.
    static let eventsShownMax = 500
    /// Most changes that the page of one event shows.
    static let changesShownMax = 100
    /// Changes on the console's first page.
    static let latestChanges = 20
    /// Events from which the console's first page computes the lag: enough for a 99th percentile, read in milliseconds.
    static let lagEventsCounted: Int64 = 1000
    /// Most ties of a customer that its page shows.
    static let tiesShownMax: Int64 = 200
    /// Most notices of a customer in an app that its history shows: a customer has a few in a lifetime.
    static let noticesMax: Int64 = 100
    /// Longest time for a figure. The page then shows its query, which an analyst can run without a limit.
    static let figureWaitMax = Duration.seconds(5)
    /// Longest age of a figure that is shown without reading it again.
    static let figureAgeMax = Duration.seconds(60)
    /// A figure that is read in less time is read again after every event, which delays no page noticeably. Others are
    /// shown from what is kept, at most as old as ``figureAgeMax``, or as the last visit if that was longer ago.
    static let figureIsQuick = Duration.milliseconds(50)
    /// Most differences to the stores' reports that a page lists: more are for the command.
    static let reportDifferencesShownMax = 500
    /// How long a figure is kept after the last visit.
    static let figureKeptMax = Duration.seconds(3600)
    /// Most figures kept at a time: a few pages and their details, some MB.
    static let figuresKeptMax = 32
}
