import Encoding

/// Get Transaction Info: one transaction. With an `originalTransactionId`, the first purchase of the subscription.
package struct TransactionInfoRequest: ServerAPIRequest {
    /// A `transactionId` or an `originalTransactionId`.
    package let id: String

    package init(id: String) { self.id = id }

    package var endpoint: ServerAPIEndpoint { .transactionInfo }
    package var path: String { "/inApps/v1/transactions/\(PercentEncoding.encoded(id))" }

    /// - Returns: The signed transaction.
    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> [UInt8] {
        let answer = try ServerAnswer(body)
        return try answer.text(answer.root["signedTransactionInfo"], "signedTransactionInfo")
    }
}

/// Get All Subscription Statuses: the current state of all subscriptions of the id's Apple Account.
package struct StatusesRequest: ServerAPIRequest {
    /// A `transactionId`, an `originalTransactionId` or an `appTransactionId`.
    package let id: String

    package init(id: String) { self.id = id }

    package var endpoint: ServerAPIEndpoint { .statuses }
    package var path: String { "/inApps/v1/subscriptions/\(PercentEncoding.encoded(id))" }

    /// A subscription, of which Apple signs the parts and not the whole. The number of its status is not signed, so it is
    /// not read: it follows from the parts.
    package struct Line: Sendable, Hashable {
        package let signedTransaction: [UInt8]
        /// Nil if the answer has none.
        package let signedRenewal: [UInt8]?
    }

    /// - Returns: In no particular order; empty if the account has no auto-renewable subscription.
    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> [Line] {
        let answer = try ServerAnswer(body)
        guard let groups = answer.root["data"], groups.isArray else { throw .missing("data") }
        var lines: [Line] = []
        for group in groups.elements(atMost: Self.linesMax) {
            guard let last = group["lastTransactions"], last.isArray else { throw .missing("lastTransactions") }
            for line in last.elements(atMost: Self.linesMax) {
                let renewal = line["signedRenewalInfo"].flatMap { $0.isString ? Array($0.unescapedBytes) : nil }
                lines.append(
                    Line(
                        signedTransaction: try answer.text(line["signedTransactionInfo"], "signedTransactionInfo"),
                        signedRenewal: renewal))
            }
        }
        return lines
    }

    /// More than any Apple Account has in one app.
    private static let linesMax = 1000
}

/// Get Transaction History, version 2: a page of all purchases of the id's Apple Account, in the order in which they were
/// last changed.
package struct TransactionHistoryRequest: ServerAPIRequest {
    /// A `transactionId`, an `originalTransactionId` or an `appTransactionId`.
    package let id: String
    /// The revision of the previous page; nil for the first one. That of the last page leads, later, to what has changed
    /// since then.
    package let revision: String?

    package init(id: String, revision: String?) {
        self.id = id
        self.revision = revision
    }

    package var endpoint: ServerAPIEndpoint { .history }

    package var path: String {
        let query = revision.map { "&revision=\(PercentEncoding.encoded($0))" } ?? ""
        return "/inApps/v2/history/\(PercentEncoding.encoded(id))?sort=ASCENDING\(query)"
    }

    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> TransactionPage {
        try TransactionPage(decoding: body)
    }
}

/// Get Refund History, version 2: a page of the refunds of any product of the id's Apple Account, the oldest first.
package struct RefundHistoryRequest: ServerAPIRequest {
    /// A `transactionId`, an `originalTransactionId` or an `appTransactionId`.
    package let id: String
    /// The revision of the previous page; nil for the first one.
    package let revision: String?

    package init(id: String, revision: String?) {
        self.id = id
        self.revision = revision
    }

    package var endpoint: ServerAPIEndpoint { .refundHistory }

    package var path: String {
        let query = revision.map { "?revision=\(PercentEncoding.encoded($0))" } ?? ""
        return "/inApps/v2/refund/lookup/\(PercentEncoding.encoded(id))\(query)"
    }

    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> TransactionPage {
        try TransactionPage(decoding: body)
    }
}

/// Look Up Order ID: the purchases of an order whose number a customer has from the App Store. In production only.
package struct OrderLookupRequest: ServerAPIRequest {
    package let orderId: String

    package init(orderId: String) { self.orderId = orderId }

    package var endpoint: ServerAPIEndpoint { .orderLookup }
    package var path: String { "/inApps/v1/lookup/\(PercentEncoding.encoded(orderId))" }

    package enum Answer: Sendable, Hashable {
        /// Signed transactions, at least one.
        case valid([[UInt8]])
        /// No order of this app. Apple does not say whether it is one of another developer.
        case invalid
    }

    package func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> Answer {
        let answer = try ServerAnswer(body)
        switch answer.root["status"]?.int64 {
        case 0?:
            let signed = try answer.signedTransactions()
            guard !signed.isEmpty else { throw .missing("signedTransactions") }
            return .valid(signed)
        case 1?: return .invalid
        default: throw .missing("status")
        }
    }
}

/// A page of transactions, of a list that goes on at its revision.
package struct TransactionPage: Sendable, Hashable {
    package let signedTransactions: [[UInt8]]
    package let revision: String
    package let hasMore: Bool

    fileprivate init(decoding body: [UInt8]) throws(UnreadableJSON) {
        let answer = try ServerAnswer(body)
        signedTransactions = try answer.signedTransactions()
        guard let revision = answer.root["revision"]?.string else { throw .missing("revision") }
        guard let hasMore = answer.root["hasMore"]?.bool else { throw .missing("hasMore") }
        self.revision = revision
        self.hasMore = hasMore
    }
}

extension ServerAnswer {
    fileprivate func signedTransactions() throws(UnreadableJSON) -> [[UInt8]] {
        guard let rows = root["signedTransactions"], rows.isArray else { throw .missing("signedTransactions") }
        var signed: [[UInt8]] = []
        for row in rows.elements(atMost: Self.transactionsMax) { signed.append(try text(row, "signedTransactions")) }
        return signed
    }

    /// Apple's pages have at most 20 rows.
    private static var transactionsMax: Int { 1000 }
}
