import Encoding

extension SimulatedServerAPI {
    /// How the store differs from one whose every part works.
    package struct Settings: Sendable {
        /// The forms of the header `Retry-After`. Apple's is the first one.
        package enum RetryAfter: Sendable, CaseIterable {
            /// The instant of the next allowed request, in milliseconds since 1970.
            case milliseconds
            /// The same instant, in seconds since 1970.
            case seconds
            case secondsToWait
            /// An instant in the past, in milliseconds.
            case past
            case missing
        }

        package var key = SimulatedAPIKey.standard
        /// An app without a release has no production: every request there is answered 401.
        package var isReleased = true
        /// The requests per hour of an endpoint, instead of Apple's.
        package var hourlyLimits: [StoreEndpoint: Int] = [:]
        /// The items of a page of any history.
        package var pageItems = 20
        package var retryAfter = RetryAfter.milliseconds
        /// How long the store does not find a new transaction.
        package var newIdDelay = Duration.zero
        /// The number of requests for statuses after each renewal that still show the time before it.
        package var staleStatuses = 0
        /// Joins the accounts of a family: the purchaser also has the subscription that is shared with the member.
        package var joinsFamilies = false
        /// Signs the notifications of the history again, instead of repeating the bytes that were sent.
        package var signsHistoryAnew = false
        package var paginationTokenLife = Duration.seconds(3600)
        /// The clock that tokens are checked by; nil for the store's.
        package var tokenClock: (@Sendable () -> Instant)?
        /// How the store sends its notifications; nil if it sends none.
        package var sending: NotificationSending?

        package init() {}
    }
}
