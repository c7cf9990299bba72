import Encoding
import EventLog
import Logging
import PlayStore
import Subscriptions

/// Compares the log with the newest orders of recent purchases: Google announces no refund of an amount, and lists none.
struct OrderAudit: Sendable {
    let client: GoogleClient
    let queue: PurchaseQueue
    let news: NewsAppender
    let clock: StoreClock
    let logger: Logger

    private struct Counts {
        var compared = 0
        var unknown = 0
        var appended = 0
    }

    /// Asks about the orders of an app, and appends what states something new. Ends early if Google cannot be asked: the next
    /// comparison asks again.
    ///
    /// - Throws: ``ReadError``, ``AppendError``.
    func compare(_ app: GoogleApp, at now: Instant) async throws {
        var counts = Counts()
        var last: [UInt8] = []
        var isComplete = true
        while isComplete, !Task.isCancelled {
            let page = try await queue.newestOrders(
                of: app.packageName, askedSince: now.advanced(by: .zero - Limits.orderAuditAgeMax), after: last,
                limit: Int64(Limits.ordersAtOnce))
            guard let next = page.last?.tokenDigest else { break }
            if !last.isEmpty { try await clock.sleep(clock.now() + Limits.voidPagePause) }
            isComplete = try await compare(page[...], app, &counts)
            last = next
        }
        let metadata: Logger.Metadata = [
            "stream.app": "\(app.packageName)", "google.orders": "\(counts.compared)",
            "google.orders_unknown": "\(counts.unknown)", "google.refunds_new": "\(counts.appended)",
        ]
        if isComplete {
            if counts.compared > 0 { logger.info("orders compared", metadata: metadata) }
        } else {
            logger.warning("orders not compared", metadata: metadata)
        }
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
                if kept.position != nil { counts.appended += 1 }
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
