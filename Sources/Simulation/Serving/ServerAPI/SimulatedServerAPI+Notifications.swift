import Encoding
import Foundation
import Subscriptions

// MARK: - Notification history

extension SimulatedServerAPI {
    func notificationHistory(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        guard let body = request.call.json else { throw .request }
        let filter = try NotificationFilter(body, at: request.now, host: request.call.host)
        var account: SimulatedAccount.Key?
        if let id = filter.transactionId {
            let found = try find(id, request)
            guard found.kind != .account else { throw .transactionId }
            account = found.account.key
        }
        let token = try paginationToken(request)
        var items = items(filter, of: account, after: token?.place, request)
        var hasMore = items.count > settings.pageItems
        items = Array(items.prefix(settings.pageItems))
        var next = hasMore ? items.last?.place : nil
        if request.fault == .emptyPage {
            items = []
            hasMore = true
            next = token?.place ?? NotificationJournal.Place(signedMilliseconds: 0, serial: 0)
        } else if request.fault == .repeatedItem, let token, token.place.signedMilliseconds > 0 {
            items.insert(journal.item(token.place.serial), at: 0)
        }
        let mark = Self.mark(ofBody: request)
        return .json { writer in
            writer.key("notificationHistory")
            writer.array(items) { writer, item in
                writer.object { writer in
                    let payload = item.signedPayload(isSignedAnew: settings.signsHistoryAnew)
                    writer.member("signedPayload", String(decoding: payload, as: UTF8.self))
                    write(item.attempts, to: &writer)
                }
            }
            writer.member("hasMore", hasMore)
            writer.member("paginationToken", next.map { PaginationToken(place: $0, madeAt: request.now).text(mark) })
        }
    }

    private func write(_ attempts: [SendAttempt], to writer: inout JSONWriter) {
        writer.key("sendAttempts")
        writer.array(attempts) { $1.write(to: &$0) }
    }

    /// One more than a page shows.
    private func items(
        _ filter: NotificationFilter, of account: SimulatedAccount.Key?, after: NotificationJournal.Place?,
        _ request: StoreAPIRequest
    ) -> [NotificationJournal.Item] {
        guard request.call.host == app.environment else { return [] }
        return journal.items(filter.interval, of: account, after: after, atMost: settings.pageItems + 1) {
            filter.matches($0)
        }
    }

    private func paginationToken(_ request: StoreAPIRequest) throws(StoreAPIError) -> PaginationToken? {
        guard let text = request.call.value("paginationToken") else { return nil }
        guard let token = PaginationToken(text, mark: Self.mark(ofBody: request)) else { throw .paginationToken }
        let isOld = token.madeAt.advanced(by: settings.paginationTokenLife) < request.now
        guard !isOld, request.fault != .expiredPaginationToken else { throw .paginationTokenExpired }
        return token
    }

    /// A token is of the bytes of a body.
    private static func mark(ofBody request: StoreAPIRequest) -> String {
        mark([String(decoding: request.call.body, as: UTF8.self)])
    }
}

/// The place after which the next page starts.
private struct PaginationToken {
    let place: NotificationJournal.Place
    let madeAt: Instant

    init(place: NotificationJournal.Place, madeAt: Instant) {
        self.place = place
        self.madeAt = madeAt
    }

    /// Nil if the token is malformed or of another body.
    init?(_ text: String, mark: String) {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[3] == mark, let signed = Int64(parts[0]), let serial = Int(parts[1]),
            let made = Int64(parts[2]), let madeAt = Instant(milliseconds: made)
        else { return nil }
        self.init(place: NotificationJournal.Place(signedMilliseconds: signed, serial: serial), madeAt: madeAt)
    }

    func text(_ mark: String) -> String {
        "\(place.signedMilliseconds)_\(place.serial)_\(madeAt.milliseconds)_\(mark)"
    }
}

/// The body of a request for the notification history.
private struct NotificationFilter {
    /// By the date of signing. Apple does not document by which date it filters.
    let interval: Range<Instant>
    let transactionId: String?
    private let type: String?
    private let subtype: String?
    private let isFailuresOnly: Bool

    private static let dayMilliseconds: Int64 = 86_400_000

    /// The types with their subtypes; an empty one stands for none.
    private static let subtypes: [String: [String]] = [
        "SUBSCRIBED": ["INITIAL_BUY", "RESUBSCRIBE"],
        "DID_CHANGE_RENEWAL_PREF": ["", "UPGRADE", "DOWNGRADE"],
        "DID_CHANGE_RENEWAL_STATUS": ["AUTO_RENEW_ENABLED", "AUTO_RENEW_DISABLED"],
        "OFFER_REDEEMED": ["", "UPGRADE", "DOWNGRADE"],
        "DID_RENEW": ["", "BILLING_RECOVERY"],
        "EXPIRED": ["", "VOLUNTARY", "BILLING_RETRY", "PRICE_INCREASE", "PRODUCT_NOT_FOR_SALE"],
        "DID_FAIL_TO_RENEW": ["", "GRACE_PERIOD"],
        "GRACE_PERIOD_EXPIRED": [""],
        "PRICE_INCREASE": ["PENDING", "ACCEPTED"],
        "PRICE_CHANGE": [""],
        "METADATA_UPDATE": [""],
        "MIGRATION": [""],
        "REFUND": [""],
        "REFUND_DECLINED": [""],
        "REFUND_REVERSED": [""],
        "CONSUMPTION_REQUEST": [""],
        "RENEWAL_EXTENDED": [""],
        "RENEWAL_EXTENSION": ["SUMMARY", "FAILURE"],
        "REVOKE": [""],
        "ONE_TIME_CHARGE": [""],
        "EXTERNAL_PURCHASE_TOKEN": ["UNREPORTED", "CREATED", "ACTIVE_TOKEN_REMINDER"],
        "RESCIND_CONSENT": [""],
        "TEST": [""],
    ]

    init(_ body: JSONValue, at now: Instant, host: Subscriptions.Environment) throws(StoreAPIError) {
        guard let start = body["startDate"]?.int64.flatMap({ Instant(milliseconds: $0) }) else { throw .startDate }
        guard let end = body["endDate"]?.int64.flatMap({ Instant(milliseconds: $0) }) else { throw .endDate }
        guard start < end else { throw .startAfterEnd }
        let days: Int64 = host == .production ? 180 : 30
        // The border itself is too far back.
        guard now.advanced(byMilliseconds: -days * Self.dayMilliseconds) < start else { throw .startTooFarBack }
        let last = min(end, now.advanced(byMilliseconds: 1))
        interval = start..<max(start, last)
        type = body.string("notificationType")
        subtype = body.string("notificationSubtype")
        transactionId = body.string("transactionId")
        isFailuresOnly = body.bool("onlyFailures") ?? false
        if let type {
            guard let known = Self.subtypes[type], subtype.map({ known.contains($0) }) ?? true else {
                throw .notificationType
            }
            guard transactionId == nil else { throw .twoFilters }
        } else if subtype != nil {
            throw .notificationType
        }
    }

    func matches(_ item: NotificationJournal.Item) -> Bool {
        let isUndelivered = !item.attempts.isEmpty && !item.attempts.contains { $0.result == .success }
        return (type == nil || item.type == type) && (subtype == nil || item.subtype == subtype)
            && (!isFailuresOnly || isUndelivered)
    }
}

// MARK: - Test notifications

extension SimulatedServerAPI {
    func testNotification(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        guard request.call.host == app.environment, settings.sending != nil else { throw .noNotificationURL }
        var data = V2Data(app: app)
        // Tests are made by no build of the app.
        data.bundleVersion = nil
        let uuid = make("TEST", nil, .data(data), of: nil, at: request.now)
        let token = "\(uuid)_\(request.now.milliseconds)"
        state.withLock { $0.tests[token] = uuid }
        return .json { $0.member("testNotificationToken", token) }
    }

    func testNotificationStatus(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        guard UUID(uuidString: String(request.id.prefix { $0 != "_" })) != nil else { throw .testToken }
        guard request.call.host == app.environment, let uuid = state.withLock({ $0.tests[request.id] }),
            let item = journal.extra(uuid), !item.attempts.isEmpty
        else { throw .testNotFound }
        return .json { writer in
            writer.member("signedPayload", String(decoding: item.signedPayload(), as: UTF8.self))
            write(item.attempts, to: &writer)
        }
    }
}
