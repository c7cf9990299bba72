/// Limits of revocation checks, each with its reason.
package struct RevocationLimits: Sendable {
    /// Maximum number of cached chains. Apple signs with a few at a time.
    package var chainsMax = 64
    /// Maximum number of running checks. Apple's responder serves every customer, and a chain is checked once an hour.
    package var checksMax = 2
    /// Maximum duration of a check, and of waiting for one: Apple was observed to give up after 30 seconds, of which
    /// the commit needs 10.
    package var checkWaitMax = Duration.seconds(10)
    /// Maximum wait for one response, so that an unresponsive leaf responder leaves time for the intermediate.
    package var answerWaitMax = Duration.seconds(4)
    /// Maximum size of a response. Real ones have a few kilobytes.
    package var answerBytesMax = 1 << 20
    /// How long a good or revoked verdict is fresh, although responses are signed for longer. Bounds how late a
    /// revocation is detected.
    package var answerHolds = Duration.seconds(3600)
    /// First wait after an unknown verdict; it doubles with each further one up to the maximum.
    package var retryFirst = Duration.seconds(30)
    package var retryLongest = Duration.seconds(15 * 60)

    package init() {}
}
