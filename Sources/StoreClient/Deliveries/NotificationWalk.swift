import AppStore
import Encoding
import Subscriptions

/// Reads pages of Apple's notification history.
struct NotificationWalk: Sendable {
    let client: ServerAPIClient

    /// Reads all pages.
    ///
    /// - Parameters:
    ///   - interval: Apple does not document by which date it filters.
    ///   - transactionId: A purchase of the customer that the notifications are about; nil for all.
    ///   - onPage: Called with each page in turn; after a lost place, again with those that it had before. A failure that
    ///     it returns ends the walk.
    /// - Returns: Nil when the last page was read.
    func read(
        _ interval: Range<Instant>, of app: App, on host: ReceiptHost, transactionId: String? = nil,
        priority: AskPriority = .check, onPage: ([SentNotification]) async throws -> AccountReader.Failure?
    ) async throws -> AccountReader.Failure? {
        var token: String?
        var hasRestarted = false
        var emptyPages = 0
        while true {
            let request = NotificationHistoryRequest(
                start: interval.lowerBound, end: interval.upperBound, transactionId: transactionId,
                paginationToken: token)
            let outcome = await client.ask(request, app: app, host: host, priority: priority)
            if case .refused(let refusal) = outcome, refusal.kind == .pageLost, !hasRestarted {
                (token, hasRestarted, emptyPages) = (nil, true, 0)
                continue
            }
            switch AccountReader.answer(outcome) {
            case .failure(let failure): return failure
            case .success(let page):
                emptyPages = page.notifications.isEmpty ? emptyPages + 1 : 0
                guard emptyPages <= Limits.emptyPagesMax else { return .unreadable }
                if let failure = try await onPage(page.notifications) { return failure }
                guard let next = page.nextToken else { return nil }
                token = next
            }
        }
    }
}
