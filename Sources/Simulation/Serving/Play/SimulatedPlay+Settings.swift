import Encoding

extension SimulatedPlay {
    /// How the store differs from one whose every part works.
    package struct Settings: Sendable {
        /// What an acknowledgement of an acknowledged purchase is answered.
        package enum Repeated: Sendable, CaseIterable {
            case success, invalidPurchaseState, productNotOwnedByUser
        }

        /// What is answered about a subscription that ended more than 60 days ago.
        package enum TooOld: Sendable, CaseIterable {
            /// 410.
            case gone
            /// 400 `FAILED_PRECONDITION`.
            case failedPrecondition
        }

        package var rendering: PlayRendering
        package var tokens = PlayTokenEndpoint.Settings()
        package var quota = PlayQuota.Limits()
        package var repeatedAcknowledgement = Repeated.success
        package var tooOld = TooOld.gone
        /// The number of answers after each change of a purchase that still show the time before it.
        package var staleAnswers = 0
        /// How long the store does not find a new purchase token.
        package var newTokenDelay = Duration.zero
        /// The most rows of a page of voided purchases.
        package var voidsPerPage = 1000
        /// The fraction of requests with a fault, 0 to 1.
        package var faults = 0.0
        /// The API and the token endpoint answer 503 in this time; nil for no such time.
        package var outage: Range<Instant>?
        /// How long a client may keep the keys of push tokens.
        package var keysMaxAgeSeconds = 20_000
        /// The clock of access tokens and push tokens, in seconds since 1970; nil for the store's.
        package var tokenClock: (@Sendable () -> Int64)?
        /// How the store pushes its messages; nil if it pushes none.
        package var sending: PlaySending?

        package init(packageName: String) {
            rendering = PlayRendering(packageName: packageName)
        }
    }
}
