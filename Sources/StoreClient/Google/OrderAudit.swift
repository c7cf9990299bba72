import Encoding
import EventLog
import Logging
import Metrics
import PlayStore
import Subscriptions
import Synchronization

/// Compares the log with the newest two orders of recent purchases once a day: Google announces no refund of an amount, and lists
/// none. A comparison that fails is made again soon, and keeps none of another app from being made.
final class OrderAudit: Sendable {
    private let client: GoogleClient
    private let queue: PurchaseQueue
    private let voids: VoidLog
    private let news: NewsAppender
    private let clock: StoreClock
    private let random: @Sendable () -> Double
    private let found: Counter
    private let logger: Logger
    private let progress = Mutex<[String: Progress]>([:])
    private let holds = Holds<String>()

    /// What this process knows of the comparisons of an app.
    private struct Progress {
        /// The last complete one.
        var comparedAt: Instant?
        /// Those since then that failed.
        var failures = 0
    }

    /// - Parameters:
    ///   - queue: With the rights of `subledger_poller`, as well as `voids`.
    ///   - random: From 0 up to but excluding 1.
    init(
        client: GoogleClient, queue: PurchaseQueue, voids: VoidLog, news: NewsAppender, clock: StoreClock,
        random: @escaping @Sendable () -> Double, metrics factory: any MetricsFactory, logger: Logger
    ) {
        self.client = client
        self.queue = queue
        self.voids = voids
        self.news = news
        self.clock = clock
        self.random = random
        self.logger = logger
        found = Counter(label: "subledger_google_order_refunds_found_total", factory: factory)
        found.increment(by: 0)
    }

    /// When the last complete comparison of an app was made; nil if there was none.
    ///
    /// - Parameter recorded: By the last record of the app. Without a list of its voided purchases, it has none.
    func comparedAt(_ app: GoogleApp, recorded: Instant?) -> Instant? {
        [recorded, progress.withLock { $0[app.packageName]?.comparedAt }].compactMap(\.self).max()
    }

    /// Whether the last comparison of an app failed a short while ago, so that none is tried.
    func isHeld(_ app: GoogleApp, at now: Instant) -> Bool {
        holds.isHeld(app.packageName, at: now)
    }

    /// Makes the comparison of an app if it is due and not held.
    ///
    /// - Throws: ``ReadError``, ``AppendError``. Like a comparison that is not complete, it is made again soon.
    func round(_ app: GoogleApp, recorded: Instant?, at now: Instant) async throws {
        let last = comparedAt(app, recorded: recorded)
        if let last, last.duration(to: now) < Limits.voidAuditInterval { return }
        guard !isHeld(app, at: now) else { return }
        do {
            guard try await compare(app, at: now) else { return noteFailure(app, at: now) }
            progress.withLock { $0[app.packageName] = Progress(comparedAt: now) }
            try await voids.recordOrders(comparedAt: now, of: app.packageName)
        } catch {
            noteFailure(app, at: now)
            throw error
        }
    }

    private func noteFailure(_ app: GoogleApp, at now: Instant) {
        let failures = progress.withLock { progress in
            let failures = (progress[app.packageName]?.failures ?? 0) + 1
            progress[app.packageName, default: Progress()].failures = failures
            return failures
        }
        let pause = RepeatPause.orders.pause(after: failures, part: random())
        holds.hold(app.packageName, until: now.advanced(by: pause))
    }

    // MARK: One comparison

    private struct Counts {
        var compared = 0
        var unknown = 0
        var appended = 0
    }

    /// Asks about the orders of an app, and appends what states something new. Ends early if Google cannot be asked: the next
    /// comparison asks again.
    ///
    /// - Returns: Whether all were compared.
    private func compare(_ app: GoogleApp, at now: Instant) async throws -> Bool {
        var counts = Counts()
        var last: [UInt8] = []
        var isComplete = true
        while isComplete, !Task.isCancelled {
            let page = try await queue.newestOrders(
                of: app.packageName, askedSince: now.advanced(by: .zero - Limits.orderAuditAgeMax), after: last,
                limit: Int64(Limits.ordersAtOnce))
            guard let next = page.last?.tokenDigest else { break }
            // A customer notices a charge, and asks for the money, when the next one may be made already.
            let orders = page + page.compactMap(\.former)
            for start in stride(from: 0, to: orders.count, by: Limits.ordersAtOnce) where isComplete {
                if !last.isEmpty || start > 0 { try await clock.sleep(clock.now() + Limits.voidPagePause) }
                let end = min(start + Limits.ordersAtOnce, orders.count)
                isComplete = try await compare(orders[start..<end], app, &counts)
            }
            last = next
        }
        guard !Task.isCancelled else { return false }
        let metadata: Logger.Metadata = [
            "stream.app": "\(app.packageName)", "google.orders": "\(counts.compared)",
            "google.orders_unknown": "\(counts.unknown)", "google.refunds_new": "\(counts.appended)",
        ]
        if isComplete {
            if counts.compared > 0 { logger.info("orders compared", metadata: metadata) }
        } else {
            logger.warning("orders not compared", metadata: metadata)
        }
        return isComplete
    }

    /// - Returns: False if Google cannot be asked now, or does not know too many orders.
    private func compare(
        _ orders: ArraySlice<PurchaseQueue.NewestOrder>, _ app: GoogleApp, _ counts: inout Counts
    ) async throws -> Bool {
        let outcome = await client.ask(
            .orders(orders.map(\.orderId), of: app.packageName), app: app, isScheduled: true)
        switch outcome {
        case .answered(let answer):
            guard let list = try? OrderList(decoding: answer.body) else { return false }
            counts.compared += orders.count
            for order in list.orders where order.mayBeRefunded {
                guard let known = orders.first(where: { $0.orderId == order.orderId }),
                    let token = PurchaseToken(known.purchaseToken)
                else { continue }
                let subject = PlayStatement.Subject(
                    packageName: app.packageName, purchaseToken: token, environment: .production)
                guard
                    let statement = try? PlayStatement.answer(
                        order.body, of: .order, about: subject, answeredAt: answer.answeredAt)
                else { continue }
                let kept = try await news.append(statement, receivedAt: statement.answeredAt)
                guard kept.position != nil else { continue }
                counts.appended += 1
                found.increment()
            }
            return true
        case .refused:
            guard orders.count > 1 else {
                counts.unknown += 1
                return counts.unknown <= Limits.ordersUnknownMax
            }
            // An order that Google does not know fails those with it.
            let middle = orders.startIndex + orders.count / 2
            guard try await compare(orders[..<middle], app, &counts) else { return false }
            return try await compare(orders[middle...], app, &counts)
        case .rejected, .unreadable, .unavailable: return false
        }
    }
}
