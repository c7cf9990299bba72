import Encoding

// MARK: - One transaction

extension SimulatedServerAPI {
    func transactionInfo(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        let found = try find(request)
        guard let subscription = found.subscription else { throw .accountTransactionId }
        let rows = subscription.transactions(at: request.now, amendments)
        // A restored copy has no row of its own.
        guard let row = rows.first(where: { $0.transactionId == request.id }) ?? rows.last else {
            throw .transactionNotFound
        }
        return .json { $0.member("signedTransactionInfo", sign(row, request)) }
    }
}

// MARK: - Histories

extension SimulatedServerAPI {
    func history(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        let filter = try HistoryFilter(request.call)
        let found = try find(request)
        let rows = transactions(of: found.account, request).filter { filter.matches($0) }
        let sorted = rows.map { HistoryRow(at: $0.modifiedAt, transaction: $0) }
        return try page(sorted, isDescending: filter.isDescending, request)
    }

    /// The refunds of any product. Family access that ended is no refund.
    func refundHistory(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        let found = try find(request)
        let rows = transactions(of: found.account, request).compactMap { transaction -> HistoryRow? in
            guard let revocation = transaction.purchase.revocation, !revocation.kind.isOfMember else { return nil }
            return HistoryRow(at: revocation.date, transaction: transaction)
        }
        return try page(rows, isDescending: false, request)
    }

    /// The purchase of an order. Orders of other developers are as invalid as those that do not exist.
    func orderLookup(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        guard (1...64).contains(request.id.utf8.count), request.id.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .request
        }
        let id = request.call.host == app.environment ? SimulatedOrder.transactionId(of: request.id) : nil
        let found = id.flatMap { simulation.lookup($0, at: request.now) }
        let row = found?.subscription?.transactions(at: request.now, amendments).first {
            SimulatedOrder.number(of: $0.transactionId) == request.id
        }
        guard let row else { return .json { $0.member("status", 1) } }
        return .json { writer in
            writer.member("status", 0)
            writer.key("signedTransactions")
            writer.array([sign(row, request)]) { $0.value($1) }
        }
    }

    private func transactions(of account: SimulatedAccount, _ request: StoreAPIRequest) -> [SimulatedTransaction] {
        let amendments = amendments
        return account.subscriptions.flatMap { $0.transactions(at: request.now, amendments) }
    }

    private func page(
        _ rows: [HistoryRow], isDescending: Bool, _ request: StoreAPIRequest
    ) throws(StoreAPIError) -> StoreAPIAnswer {
        let asked = request.call.query.filter { $0.name != "revision" }.map { "\($0.name)=\($0.value)" }.sorted()
        let mark = Self.mark([request.endpoint.rawValue, request.id] + asked)
        let given = request.call.value("revision")
        var after: HistoryPlace?
        if let given, given != Self.emptyRevision {
            guard let place = HistoryPlace(revision: given, mark: mark) else { throw .revision }
            after = place
        }
        let sorted = rows.sorted { isDescending ? $1.place < $0.place : $0.place < $1.place }
        let remaining = sorted.filter { row in
            guard let after, !after.isStart else { return true }
            return isDescending ? row.place < after : after < row.place
        }
        var shown = Array(remaining.prefix(settings.pageItems))
        var hasMore = remaining.count > shown.count
        var revision = shown.last?.place.revision(mark: mark) ?? given ?? Self.emptyRevision
        if request.fault == .emptyPage {
            shown = []
            hasMore = true
            revision = given ?? HistoryPlace.start.revision(mark: mark)
        } else if request.fault == .repeatedItem, remaining.count < sorted.count {
            shown.insert(sorted[sorted.count - remaining.count - 1], at: 0)
        }
        return .json { writer in
            writer.key("signedTransactions")
            writer.array(shown) { $0.value(sign($1.transaction, request)) }
            writer.member("revision", revision)
            writer.member("hasMore", hasMore)
            writeApp(to: &writer)
        }
    }

    /// The revision of a history that never had a row.
    private static let emptyRevision = "0"
}

/// A row of a history.
private struct HistoryRow {
    let place: HistoryPlace
    let transaction: SimulatedTransaction

    init(at instant: Instant, transaction: SimulatedTransaction) {
        place = HistoryPlace(milliseconds: instant.milliseconds, transactionId: transaction.transactionId)
        self.transaction = transaction
    }
}

/// The place of a row in a history: by the date that sorts it, then by transaction id.
private struct HistoryPlace: Comparable {
    let milliseconds: Int64
    let transactionId: String

    /// Before all rows, in either direction.
    static let start = HistoryPlace(milliseconds: 0, transactionId: "")

    var isStart: Bool { self == Self.start }

    static func < (left: HistoryPlace, right: HistoryPlace) -> Bool {
        (left.milliseconds, left.transactionId) < (right.milliseconds, right.transactionId)
    }

    /// - Parameter mark: Of the id and the query. Another request cannot use the revision.
    func revision(mark: String) -> String { "\(milliseconds)_\(transactionId)_\(mark)" }
}

extension HistoryPlace {
    /// Nil if the revision is malformed or of another request.
    fileprivate init?(revision: String, mark: String) {
        let parts = revision.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[2] == mark, let milliseconds = Int64(parts[0]) else { return nil }
        self.init(milliseconds: milliseconds, transactionId: String(parts[1]))
    }
}

/// The filters of a request for the history of transactions. Values of one filter are alternatives.
private struct HistoryFilter {
    let isDescending: Bool
    private let start: Int64
    private let end: Int64
    private let productIds: [String]
    private let productTypes: [String]
    private let groups: [String]
    private let ownership: String?
    private let isRevoked: Bool?

    private static let typeNames: [Product.Kind: String] = [
        .autoRenewable: "AUTO_RENEWABLE", .nonConsumable: "NON_CONSUMABLE", .consumable: "CONSUMABLE",
    ]

    init(_ call: StoreAPICall) throws(StoreAPIError) {
        guard ["ASCENDING", "DESCENDING", nil].contains(call.value("sort")) else { throw .sort }
        isDescending = call.value("sort") == "DESCENDING"
        start = try Self.instant(call.value("startDate"), otherwise: 0, .startDate)
        end = try Self.instant(call.value("endDate"), otherwise: .max, .endDate)
        guard start < end else { throw .startDate }
        productIds = call.values("productId")
        guard productIds.allSatisfy({ !$0.isEmpty }) else { throw .productId }
        productTypes = call.values("productType")
        let known = Array(Self.typeNames.values) + ["NON_RENEWABLE"]
        guard productTypes.allSatisfy({ known.contains($0) }) else { throw .productType }
        groups = call.values("subscriptionGroupIdentifier")
        guard groups.allSatisfy({ !$0.isEmpty }) else { throw .subscriptionGroup }
        ownership = call.value("inAppOwnershipType")
        guard ["PURCHASED", "FAMILY_SHARED", "ASSIGNED", nil].contains(ownership) else { throw .ownershipType }
        guard ["true", "false", nil].contains(call.value("revoked")) else { throw .revoked }
        isRevoked = call.value("revoked").map { $0 == "true" }
    }

    private static func instant(
        _ text: String?, otherwise missing: Int64, _ error: StoreAPIError
    ) throws(StoreAPIError) -> Int64 {
        guard let text else { return missing }
        guard let milliseconds = Int64(text), milliseconds >= 0 else { throw error }
        return milliseconds
    }

    func matches(_ transaction: SimulatedTransaction) -> Bool {
        let purchase = transaction.purchase
        let bought = purchase.purchaseDate.milliseconds
        return start <= bought && bought < end
            && (productIds.isEmpty || productIds.contains(purchase.product.id))
            && (productTypes.isEmpty || productTypes.contains(Self.typeNames[purchase.product.kind] ?? ""))
            && (groups.isEmpty || groups.contains(purchase.product.subscriptionGroup ?? ""))
            && (ownership == nil || ownership == transaction.customer.ownership)
            && (isRevoked == nil || isRevoked == (purchase.revocation != nil))
    }
}
