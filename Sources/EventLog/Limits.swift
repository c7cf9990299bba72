/// Bounds of the append path, each with its reason.
package enum Limits {
    /// Most events of one commit. Beyond some hundreds a larger batch gains nothing and makes everybody in it wait.
    package static let batchEventsMax = 256
    /// Most body bytes of one commit, so that the server's memory for a batch stays small; one larger body passes.
    package static let batchBytesMax = 4 << 20
    /// Most events that wait for a commit: a few seconds' work. Beyond it senders are asked to retry.
    package static let queueEventsMax = 4096
    /// Most body bytes that wait for a commit, so that memory stays flat whatever the size of the bodies.
    package static let queueBytesMax = 64 << 20
    /// Longest wait in the queue, and longest time of one commit. Their sum is the longest wait for an answer,
    /// below the 30 seconds at which Apple was seen to give up.
    package static let queueWaitMax = Duration.seconds(5)
    package static let commitWaitMax = Duration.seconds(5)
    /// Longest time for waking the projector. It looks for work every few seconds anyway.
    package static let notifyWaitMax = Duration.seconds(2)
    /// So many batches in a row, or failures over so long a time, mean that nothing can be stored: one lost connection
    /// does not.
    static let failedBatchesMax = 3
    static let failingTimeMax = Duration.seconds(5)
    /// How long a failed batch says something about the present. Longer than a load balancer's usual interval.
    static let failureAgeMax = Duration.seconds(30)
    /// Most events of one page of the log.
    package static let pageEventsMax = 1000
    /// Most events that are looked at for one page with a filter, so that a page takes tenths of a second at most
    /// whatever is asked for.
    package static let scannedEventsMax: Int64 = 20_000
    /// Time between two looks at the settings that make the log durable: so long may notifications be acknowledged on a
    /// server that was made unsafe. A look costs less than a millisecond.
    package static let durabilityLookTime = Duration.seconds(5)
    /// How far our clock may be ahead of the database's for what is published by it. Clocks that are kept in step differ by
    /// less, and nobody is told of an end more than this too early.
    static let clockAheadMax = Duration.seconds(1)
    /// Longest time for a read.
    package static let readWaitMax = Duration.seconds(5)
    /// Most tokens in force. A backend needs one or two, and a server keeps all of them in memory.
    package static let tokensMax = 1000
    /// Oldest that a server's knowledge of the tokens may be: so late a revoked one may still be let in.
    package static let tokensAgeMax = Duration.seconds(1)
    /// Longest time for bringing the schema up to date, waiting for another instance that does so included.
    package static let migrateWaitMax = Duration.seconds(300)
    /// Most events, and body bytes, of one page of an audit, so that memory stays flat; one larger body passes.
    package static let auditPageEventsMax = 200
    package static let auditPageBytesMax = 16 << 20
    /// Longest time for a statement of an audit. Nobody waits for one but the operator.
    package static let auditWaitMax = Duration.seconds(600)
}
