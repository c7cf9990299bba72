import Encoding
import Subscriptions

/// Get Notification History: a page of the notifications of version 2 that Apple made.
package struct NotificationHistoryRequest: ServerAPIRequest {
    /// Notifications from this instant on. Apple keeps them for ``age(_:)``.
    package let start: Instant
    package let end: Instant
    /// A `transactionId` or an `originalTransactionId` of a customer; nil for all customers of the app.
    package let transactionId: String?
    /// That of the previous page; nil for the first one.
    package let paginationToken: String?

    package init(start: Instant, end: Instant, transactionId: String? = nil, paginationToken: String?) {
        self.start = start
        self.end = end
        self.transactionId = transactionId
        self.paginationToken = paginationToken
    }

    /// For how long notifications can be asked for, less ten minutes: at the exact limit Apple answers with an error.
    ///
    /// - Source: Apple, "Get Notification History".
    package static func age(_ host: ReceiptHost) -> Duration {
        .seconds((host == .production ? 180 : 30) * 86_400 - 600)
    }

    package var endpoint: ServerAPIEndpoint { .notificationHistory }
    package var method: String { "POST" }

    package var path: String {
        let query = paginationToken.map { "?paginationToken=\(PercentEncoding.encoded($0))" } ?? ""
        return "/inApps/v1/notifications/history\(query)"
    }

    /// The same for all pages, because the token belongs to it.
    package var body: [UInt8]? {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("startDate", start.milliseconds)
            writer.member("endDate", end.milliseconds)
            writer.member("transactionId", transactionId)
        }
        return writer.bytes
    }

    package struct Page: Sendable, Hashable {
        package let notifications: [SentNotification]
        /// Nil for the last page.
        package let nextToken: String?
    }

    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> Page {
        let answer = try ServerAnswer(body)
        guard let items = answer.root["notificationHistory"], items.isArray else {
            throw .missing("notificationHistory")
        }
        guard let hasMore = answer.root["hasMore"]?.bool else { throw .missing("hasMore") }
        var notifications: [SentNotification] = []
        for item in items.elements(atMost: Self.itemsMax) {
            notifications.append(try SentNotification(item, of: answer))
        }
        guard hasMore else { return Page(notifications: notifications, nextToken: nil) }
        guard let token = answer.root["paginationToken"]?.string else { throw .missing("paginationToken") }
        return Page(notifications: notifications, nextToken: token)
    }

    /// Apple's pages have at most 20 items.
    private static let itemsMax = 1000
}
