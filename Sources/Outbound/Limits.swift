/// Limits of outbound delivery, each with its reason.
package enum Limits {
    /// Most attempts in flight to one endpoint: enough for thousands a second to a receiver that answers in a millisecond.
    package static let endpointFlightsMax = 8
    /// Most attempts in flight to all endpoints that have not lasted longer than ``quickTimeMax``, so that their number does
    /// not decide how much memory is used.
    package static let flightsMax = 64
    /// Attempts in flight to endpoints that answer slowly, beside the others. Only what turns slow at the same time can
    /// exceed it.
    package static let slowFlightsMax = 64
    /// An attempt that lasts longer makes its endpoint a slow one: most receivers answer in a tenth of it. It also bounds
    /// how long an endpoint waits for others that have not been slow yet.
    package static let quickTimeMax = Duration.seconds(1)
    /// Most subscriptions of an endpoint that wait for their next attempt. Beyond it, the endpoint itself is at fault, and
    /// waits as a whole.
    package static let waitingLinesMax = 1000
    /// Most messages of an endpoint that are recorded as waiting. They are kept in memory too.
    package static let waitingMax = 10_000
    /// Messages that all endpoints together keep in memory, without their bodies: each has an equal share. A thousand endpoints
    /// that are away for a week keep some 75 MB, and leave everything else in the feed.
    package static let heldMax = 500_000
    /// Messages that are read ahead: some tenths of a second of work.
    package static let readAheadMax = 512
    /// Messages of one query, and fewest of one that is bounded by what may be kept: a query for each message would be slow.
    package static let pageMax = 128
    static let pageMin = 16
    /// Bytes of messages that are read ahead, of all endpoints together; each has an equal share.
    package static let aheadBytesMax = 32 << 20
    /// A message that was read longer ago is read again before it is sent, so that it carries the present state.
    package static let messageAgeMax = Duration.seconds(1)
    /// Longest duration of an attempt, from the look-up of the name to the end of the response.
    package static let attemptTimeMax = Duration.seconds(15)
    /// Bytes of a response that are read, so that the connection can be used again. What exceeds them is not read.
    package static let responseBytesMax = 16 << 10
    /// The longest pause that a receiver can ask for with Retry-After.
    package static let retryAfterMax = Duration.seconds(3600)
    /// An endpoint that has failed for this long without a success is disabled.
    package static let failingTimeMax = Duration.seconds(5 * 86_400)
    /// How long attempts are kept.
    package static let attemptAgeMax = Duration.seconds(30 * 86_400)
    /// Attempts that one statement deletes, so that it takes milliseconds.
    package static let prunedMax: Int64 = 5000
    package static let pruneInterval = Duration.seconds(3600)
    /// Pause between records of what was delivered. Deliveries that were not recorded are repeated after a crash.
    static let recordInterval = Duration.milliseconds(100)
    /// Attempts that are recorded at once at the latest, so that memory use stays small.
    static let recordedAttemptsMax = 1000
    /// How often endpoints are read, and leases renewed.
    package static let roundPause = Duration.seconds(1)
    /// Without a signal, new messages are looked for this often.
    static let lookPause = Duration.seconds(5)
    /// Pause after a failure of the database.
    static let failurePause = Duration.seconds(1)
    /// Names that are looked up at the same time, one of an endpoint. Each takes a thread.
    static let lookUpsMax = 16
    /// How long the address of a host is used without looking it up again.
    static let addressAgeMax = Duration.seconds(60)
    /// Longest duration of a read or write of the database.
    static let databaseWaitMax = Duration.seconds(5)
    /// Longest URL of an endpoint, in bytes.
    package static let urlBytesMax = 2048
    /// Most endpoints of a database: each has a task and a connection or more.
    package static let endpointsMax = 1000
    /// How long a replaced key still signs.
    package static let rotationTime = Duration.seconds(86_400)
}
