/// Bounds of the revocation checks, each with its reason.
package struct RevocationLimits: Sendable {
    /// Most chains remembered. Apple signs with a few at a time.
    package var chainsMax = 64
    /// Most checks under way. Apple's responder serves everybody, and a chain is asked for once an hour.
    package var checksMax = 2
    /// Longest check, and longest wait for one: Apple was seen to give up after 30 seconds, and the commit needs
    /// 10 of them.
    package var checkWaitMax = Duration.seconds(10)
    /// Longest wait for one answer, so that a silent responder of the leaf leaves time to ask for the intermediate.
    package var answerWaitMax = Duration.seconds(4)
    /// Largest answer. Real ones have some kilobytes.
    package var answerBytesMax = 1 << 20
    /// How long a good or revoked answer holds, though responders sign theirs for longer: how soon a revocation is seen.
    package var answerHolds = Duration.seconds(3600)
    /// First wait after nobody could say; doubles with each further time up to the longest.
    package var retryFirst = Duration.seconds(30)
    package var retryLongest = Duration.seconds(15 * 60)

    package init() {}
}
