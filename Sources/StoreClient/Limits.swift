import Subscriptions

/// Limits of questions to the stores, each with its reason.
enum Limits {
    /// Longest duration of one call. Apple usually answers within a second, and large receipts take several.
    static let callWaitMax = Duration.seconds(20)
    /// Maximum size of an answer. Receipts grow with each renewal; more than 1 MiB has been reported.
    static let answerBytesMax = 5 << 20
    /// The same for the App Store Server API. Its pages have 20 rows of 6 KB each; Apple's own library stops at 1 MiB.
    static let apiCallWaitMax = Duration.seconds(30)
    static let apiAnswerBytesMax = 4 << 20
    /// For how long a token is used; it is valid for a minute more.
    static let apiTokenAgeMax = Duration.seconds(240)
    /// Maximum number of empty pages in a row that say that there are more. Apple has such pages; a list without an end
    /// would be one of them.
    static let emptyPagesMax = 10
    /// Different requests that Google forbids in a row, after which an app's account has no permission: it may also forbid a
    /// single purchase.
    static let forbiddenRequestsMax = 2
    /// Pause of an app's requests to a host that rejects its key. The key must be replaced before it can answer.
    static let keyRejectedPause = Duration.seconds(300)
    /// Maximum number of repeated calls after temporary failures of one question. Callers repeat the question
    /// later, so more retries would only add load to a store that is down.
    static let retriesMax = 3
    /// Upper bound of the first pause between calls; it doubles with each further one up to the maximum. The actual
    /// pause is random from zero, so that questions that failed together are not repeated together.
    static let backOffFirst = Duration.seconds(1)
    static let backOffMax = Duration.seconds(8)
    /// Longest pause that a store may request with `Retry-After` and that is waited for within a question.
    static let retryAfterMax = Duration.seconds(8)
    /// Longest pause before a question is repeated, so that a wrong `Retry-After` cannot stop the questions for days.
    static let pauseMax = Duration.seconds(3600)
    /// Shortest pause before a question that failed is repeated.
    static let unavailablePause = Duration.seconds(30)
    /// Longest expected wait for the budget. Beyond it, a question is rejected with the expected wait, and the caller
    /// does other work until then.
    static let budgetWaitMax = Duration.seconds(30)
    /// The same for a question about a purchase that nothing proves, and how many of these wait: a hand-in waits no longer for
    /// its answer, and they must not hold the places of others.
    static let strangerWaitMax = Duration.seconds(2)
    static let strangersWaitingMax = 32
    /// After this many questions of strangers who wait, one without a waiting hand-in has its turn.
    static let strangersBeforeLaterMax = 3
    /// Unproven purchases of a customer about which Google is asked while the customer waits. Further ones are asked about
    /// later, so that a customer who hands in many does not hold the places of other customers.
    static let unprovenOfCustomerMax = 4
    /// Maximum number of calls of an app that wait for the budget or for another call to end. Each keeps a receipt in
    /// memory.
    static let waitingMax = 1000
    /// After this many consecutive failures, calls to a host stop. The retries of one question are fewer.
    static let failuresInRowMax = 5
    /// Calls to a host also stop if at least half of this many latest calls failed.
    static let recentCalls = 20
    static let recentFailuresMax = 10
    /// How long calls to a host stop until one is tried; it doubles with each failed try up to the maximum.
    static let breakerPauseFirst = Duration.seconds(15)
    static let breakerPauseMax = Duration.seconds(300)
    /// Pause for callers that are rejected while the call that tries the host is in flight.
    static let probePause = Duration.seconds(5)
    /// Interval of the log lines about an app's rejected secret or key.
    static let credentialAlarmInterval = Duration.seconds(3600)
    /// Connections to one host. More calls wait for a connection within their own time limit.
    static let connectionsMax = 256
    /// How long a request that hands a receipt in waits for Apple. Apple usually answers within a second. Beyond it, the
    /// receipt is asked about in the background.
    static let handInWaitMax = Duration.seconds(5)
    /// How long it also waits for Google's answer about the order of a purchase, which access does not need: beyond it, the
    /// order is asked about in the background.
    static let handInOrderWaitMax = Duration.seconds(2)
    /// Most transactions of one request. The current entitlements of a customer are a few; an app hands in its whole
    /// history in several requests.
    static let transactionsMax = 100
    /// Longest id of a transaction. Apple's have 15 or 16 digits.
    static let transactionIdLengthMax = 20
    /// Interval of the queries of requests that wait.
    static let handInLookInterval = Duration.milliseconds(50)
    /// Purchases of an app that wait for Google's first answer. More are refused: what apps send costs rows and calls, and those
    /// before them would be asked about first. How long a count is used.
    static let unansweredPurchasesMax: Int64 = 10_000
    static let unansweredCountAgeMax = Duration.seconds(5)
    /// How long what was handed in and refused is kept, of receipts the digest: backends read for days what came of one, and a
    /// repetition is answered without a question. How often older ones are forgotten, and how many at a time.
    static let refusedHandInsKept = Duration.seconds(30 * 86_400)
    static let handInSweepInterval = Duration.seconds(3600)
    static let handInSweepBatch: Int64 = 1000
    /// Within this time, the same receipt of the same customer gets the last verdict again. Apps hand a receipt in at
    /// each start and repeat lost requests, but a receipt changes with each purchase, so asking again finds only what
    /// was renewed or refunded meanwhile.
    static let verdictAgeMax = Duration.seconds(300)
    /// How long after its last report a server still counts as asking about a receipt, and the interval of these reports.
    /// The longer a question takes, the more reports; only a receipt whose server died, or lost its database, waits for
    /// the end.
    static let claimMax = Duration.seconds(30)
    static let claimInterval = Duration.seconds(10)
    /// Pause before a receipt without an answer is asked about again; it doubles up to the maximum. The actual one is
    /// random, from half of it on.
    static let handInPauseFirst = Duration.seconds(5)
    static let handInPauseMax = Duration.seconds(3600)
    /// After this time, a receipt that Apple signed and calls malformed is refused. Until then, Apple is thought to be ill:
    /// it answers so in outages, which have lasted hours.
    static let malformedWaitMax = Duration.seconds(86_400)
    /// After this time, a receipt for which the shared secret is rejected is refused: it may be of another developer's
    /// app. Until then, an operator may correct the secret.
    static let secretWaitMax = Duration.seconds(7 * 86_400)
    /// Interval in which a server looks for receipts to ask about.
    static let queueInterval = Duration.seconds(1)
    /// Maximum number of receipts that a server asks about in the background at a time. Each may have 5 MiB.
    static let queueConcurrency = 4
    /// Maximum number of those that Apple did not sign for their apps: the others have places that nobody can fill.
    static let unsignedQueueConcurrency = 2
    /// Maximum number of events in which a receipt is looked for. Nearly all notifications of version 1 and answers have
    /// one.
    static let receiptEventsMax = 5
    /// Upper bound of the first pause after a failed check; it doubles up to the maximum. The actual one is random, from
    /// half of it on. A failed check closes no access, and notifications usually come first, so there is no hurry.
    static let checkPauseFirst = Duration.seconds(300)
    static let checkPauseMax = Duration.seconds(6 * 3600)
    /// Pause after the App Store did not know a subscription, and how many times in a row are an alarm. A purchase of the
    /// last minutes is not known at once.
    static let missingPause = Duration.seconds(86_400)
    static let missingAlarm = 3
    /// After this time, a check that has always failed is given up: Apple has stopped retrying payments by then.
    static let failedCheckAgeMax = Duration.milliseconds(Transaction.retryMillisecondsMax)
    /// How long a check is left alone after its answer could not be stored, or its subscription not be read.
    static let brokenCheckPause = Duration.seconds(300)
    /// Maximum number of streams that are asked about at a time, and of questions about each. A question keeps a receipt
    /// and an answer in memory, of up to 5 MiB each. Four calls that take half a second use up the usual budget.
    static let polledStreamsMax = 4
    static let checksInFlightMax = 4
    /// Maximum number of due checks of a stream that are claimed at a time. Those of one Apple Account need one question.
    static let checksClaimedMax: Int64 = 16
    /// How long a claim of a check or a purchase lasts in the rounds, unless its process reports that it is alive: several of
    /// ``leadInterval``. Another process asks then.
    static let claimTime = Duration.seconds(20)
    /// Longest and shortest pause between two rounds of checks. Checks become due hours after a period has ended, so
    /// seconds do not matter; another process takes a stream over after at most the longest one.
    static let roundPauseMax = Duration.seconds(5)
    static let roundPauseMin = Duration.milliseconds(500)
    /// Interval of the reports that keep the lead of streams: a third of the time after which it is lost.
    static let leadInterval = Duration.seconds(5)
    /// How long after a day its deliveries are audited first. Its last notifications may come some minutes late.
    static let auditDelay = Duration.seconds(3600)
    /// After this time, Apple has made all attempts to deliver a notification: the last one comes after 157 hours.
    static let lastAttemptMax = Duration.seconds(8 * 86_400)
    /// Apple does not document by which date it filters notifications, so that of signing may lie this far off.
    static let auditOverlap = Duration.seconds(600)
    /// Maximum number of parts of a day that are read at a time.
    static let auditWindowsMax = 4
    /// Days in a row that could not be audited, after which the other days of a stream wait for the next round: the App Store
    /// seems to be away.
    static let auditFailuresMax = 3
    /// Pause between two looks for days to audit.
    static let auditPause = Duration.seconds(300)
    /// How long a day is left alone whose notifications Apple refuses, or that are not understood.
    static let auditRefusedPause = Duration.seconds(3600)
    /// Intervals of the questions after a test notification: to Apple, which usually posts within seconds, and to the log.
    static let probeStatusInterval = Duration.seconds(2)
    static let probeLookInterval = Duration.milliseconds(100)
    /// Pause between two looks for refund requests to answer, and most answers that are sent in between and at a time.
    static let refundsPause = Duration.seconds(5)
    static let consumptionAnswersMax = 100
    static let consumptionConcurrency = 4
    /// Upper bound of the first pause after an answer was not taken; it doubles up to the maximum. Apple takes answers for
    /// twelve hours.
    static let consumptionPauseFirst = Duration.seconds(30)
    static let consumptionPauseMax = Duration.seconds(900)
    /// The last attempt before the deadline comes this long before it: more than the longest duration of a call.
    static let consumptionLastTry = Duration.seconds(60)
    /// Pause between two looks for accounts whose past is to be read, and how many are read at a time. No customer waits, and
    /// each account needs three calls or more.
    static let backfillPause = Duration.seconds(10)
    static let backfillAccountsMax = 4
    /// Accounts of a batch that could not be read, after which the rest of it waits: the App Store seems to be away. And how
    /// often an account is tried that alone holds its batch up.
    static let backfillFailuresMax = 4
    static let backfillAttemptsMax = 5
    /// For how long, if the App Store answers about no other account meanwhile: an outage passes no account over.
    static let backfillFailureAgeMax = Duration.seconds(86_400)
    /// Interval in which due checks are counted.
    static let backlogInterval = Duration.seconds(15)
    /// From this age on, a check that is due makes the server's health degraded.
    static let overdueMax = Duration.seconds(3600)
    /// Longest duration of one call to Google. It has been seen to answer an error after 300 seconds.
    static let googleCallWaitMax = Duration.seconds(10)
    /// Maximum size of an access token's answer, and of the list of signing keys: each has about 2 KiB.
    static let accessTokenBytesMax = 64 << 10
    /// How long no access token is fetched after a failure.
    static let accessTokenPause = Duration.seconds(10)
    /// Maximum number of calls a day to the Play Developer API: the limit that Google documented until 2025. Calls that no
    /// notification led to stop at half of it.
    static let googleCallsOfDayMax = 200_000
    /// The part of them that questions about purchases may use that nothing proves: one in four.
    static let strangersOfDayDivisor = 4
    /// Interval at which Google's signing keys may be fetched again for a token with an unknown key: otherwise, anyone could
    /// cause a request with each forged token. A new key is published long before it is used.
    static let signingKeysPause = Duration.seconds(60)
    /// Longest duration of fetching them, and how many pushes wait for it. Each holds a connection of the public listener, and
    /// anyone can send one with an unknown key; the others are answered 503.
    static let signingKeysCallMax = Duration.seconds(3)
    static let signingKeysWaitingMax = 64
    /// How long they are not fetched after a failure.
    static let signingKeysFailurePause = Duration.seconds(5)
    /// Longest time for which they are kept. Google says about six hours.
    static let signingKeysAgeMax = Duration.seconds(86_400)
    /// Pauses after answers that do not show what a notification says: Google's answers may lag by minutes. After the last
    /// one, the answer counts, and a person should look.
    static let staleAnswerPauses: [Duration] = [
        .seconds(5), .seconds(30), .seconds(120), .seconds(600), .seconds(3600),
    ]
    /// Answers to older notifications need not show them: other things have happened since.
    static let staleAnswerAgeMax = Duration.seconds(3 * 3600)
    /// Pauses after Google did not know a purchase. A fresh one may be known a little later.
    static let unknownPurchasePauses: [Duration] = [.seconds(60), .seconds(600), .seconds(3600)]
    /// Upper bound of the first pause after a failed question about a purchase; it doubles up to the maximum. The actual one
    /// is random, from half of it on. Notifications lead to questions, so customers wait for the answers.
    static let purchasePauseFirst = Duration.seconds(5)
    static let purchasePauseMax = Duration.seconds(300)
    /// Pause before a purchase is asked about again whose orders the account may not see. New permissions take a day or two, and
    /// every purchase has orders: all of them every few minutes would use up the day's quota.
    static let forbiddenOrdersPause = Duration.seconds(86_400)
    /// How long a claim of a purchase lasts outside the rounds. The longest question has four calls of ten seconds, waits of
    /// thirty, and an acknowledgement; only a purchase whose process died waits for the end.
    static let purchaseClaimMax = Duration.seconds(180)
    /// Maximum number of questions about the purchases of an app at a time. At half a second each, they use up the budget.
    static let purchasesInFlightMax = 32
    /// Pause between two looks for notifications where nothing announces them. An answer should follow its notification
    /// within seconds.
    static let purchaseLookInterval = Duration.milliseconds(500)
    /// Shortest and longest pause between two rounds of questions to Google Play. A question that another process has made
    /// due waits for the longest one at most.
    static let purchaseRoundPauseMin = Duration.milliseconds(100)
    static let purchaseRoundPauseMax = Duration.seconds(15)
    /// Interval of the comparisons with the list of voided purchases, and how far each reaches back before the last one:
    /// Google filters by the time at which it saw a void.
    static let voidAuditInterval = Duration.seconds(86_400)
    static let voidAuditOverlap = Duration.seconds(86_400)
    /// Google lists voids of the last 30 days; a little less, so that the clocks may differ.
    static let voidAuditAgeMax = Duration.seconds(30 * 86_400 - 600)
    /// How long the list is asked for at the pause below after a push without authentication has named a void.
    static let voidRequestedFor = Duration.seconds(3600)
    /// Pause after a comparison that failed.
    static let voidAuditPause = Duration.seconds(900)
    /// Pause between two pages of the list: Google accepts 30 requests in 30 seconds.
    static let voidPagePause = Duration.seconds(1)
    /// Maximum number of pages of one comparison. Each has 1,000 voids.
    static let voidPagesMax = 1000
    /// Since when a purchase must have been asked about for its order to be compared daily: most refunds come soon after the
    /// payment, and each renewal leads to a question.
    static let orderAuditAgeMax = Duration.seconds(60 * 86_400)
    /// Longest pause after a comparison of orders that failed. The first one is that after a comparison with the list.
    static let orderAuditPauseMax = Duration.seconds(6 * 3600)
    /// Orders of one request: Google accepts 1,000, but the ids stand in the URL.
    static let ordersAtOnce = 200
    /// Orders of a comparison that Google may not know. Each costs some requests, because it fails those with others.
    static let ordersUnknownMax = 100
    /// Rows of an import that are stored at once: they share commits.
    static let importRowsAtOnce = 64
    /// Orders of an import in one question to Google. If it does not know one of them, each is asked about alone: the more there
    /// are, the more of these.
    static let importOrdersAtOnce = 25
    /// Questions of an import to Google at once. The budget limits them, too.
    static let importQuestionsAtOnce = 16
}
