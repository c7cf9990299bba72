import Encoding
import Subscriptions

/// Reads receipt info and pending renewal info, as V1 notifications and answers of verifyReceipt contain them, and
/// collects the defects.
struct ReceiptReader: Sendable {
    var defects: [Defect] = []

    /// Maximum number of stored defects per body; further ones give no new information.
    private static let defectsMax = 100
    /// Maximum number of rows that are read. Notifications contain at most 100; answers contain all purchases of an
    /// account.
    private static let rowsMax = 10_000

    init(_ document: JSONDocument) {
        if document.holdsNonASCII, String(validating: document.bytes, as: UTF8.self) == nil {
            defects.append(Defect(path: "", problem: "the body is not UTF-8 throughout"))
        }
    }

    /// Reads receipt info, which is an object or an array of objects.
    ///
    /// - Parameters:
    ///   - subscription: The subscription that the body names, for rows that omit theirs.
    ///   - isCurrent: True if the receipt info is of the time of the body.
    mutating func transactions(
        _ value: JSONValue?, base: StaticString, of subscription: String? = nil, isCurrent: Bool
    ) -> [Transaction] {
        let objects = objects(value, base: base)
        var result: [Transaction] = []
        result.reserveCapacity(min(objects.count, 100))
        for row in objects {
            var fields = JSONFields(row.value, base: row.base, index: row.index)
            if row.value.isObject {
                if let transaction = fields.transaction(of: subscription, isCurrent: isCurrent) {
                    result.append(transaction)
                }
                defects += fields.defects
            } else if defects.count < Self.defectsMax {
                let place = row.base.description + (row.index.map { "[\($0)]" } ?? "")
                defects.append(Defect(path: place, problem: "is not an object"))
            }
        }
        return result
    }

    /// Reads pending renewal info.
    ///
    /// - Parameter transactions: The rows of the same body. An element of before 2018 names no subscription, and is about the
    ///   only one of its product.
    mutating func renewals(
        _ value: JSONValue?, base: StaticString, among transactions: [Transaction]
    ) -> [RenewalInfo] {
        var result: [RenewalInfo] = []
        for element in objects(value, base: base) {
            var fields = JSONFields(element.value, base: element.base, index: element.index)
            let renewal = fields.renewal(
                of: Self.onlySubscription(of: element.value["product_id"]?.string, among: transactions))
            if let renewal { result.append(renewal) }
            defects += fields.defects
        }
        return result
    }

    private static func onlySubscription(of product: String?, among transactions: [Transaction]) -> String? {
        if EarlierReading.isInForce { return nil }
        let rows = transactions.filter { $0.isOfSubscription && $0.productId == product }
        let subscriptions = Set(rows.map(\.originalTransactionId))
        return product != nil && subscriptions.count == 1 ? subscriptions.first : nil
    }

    /// Returns the rows of both lists, each transaction once.
    ///
    /// - Parameter merge: Merges two rows of one transaction, the first of which takes precedence.
    static func union(
        _ first: [Transaction], _ second: [Transaction], merging merge: (Transaction, Transaction) -> Transaction
    ) -> [Transaction] {
        var result: [Transaction] = []
        result.reserveCapacity(first.count + second.count)
        var places: [String: Int] = [:]
        for rows in [first, second] {
            // Iterates over indices, since copying a transaction copies dozens of strings.
            for index in rows.indices {
                guard let place = places[rows[index].transactionId] else {
                    places[rows[index].transactionId] = result.count
                    result.append(rows[index])
                    continue
                }
                result[place] = merge(result[place], rows[index])
            }
        }
        return result
    }

    /// The defects to store with the event, without duplicates, since a field that is read twice reports its defect
    /// twice. Ignored account tokens come last: every row of a receipt may have one, and they must not displace other
    /// defects.
    func distinctDefects(and others: [Defect]) -> [Defect] {
        var seen: Set<Defect> = []
        let all = (defects + others).filter { seen.insert($0).inserted }
        let ordered = all.filter { !$0.isIgnoredAccountToken } + all.filter(\.isIgnoredAccountToken)
        return Array(ordered.prefix(Self.defectsMax))
    }

    private struct RowObject {
        let value: JSONValue
        let base: StaticString
        let index: Int?
    }

    private mutating func objects(_ value: JSONValue?, base: StaticString) -> [RowObject] {
        guard let value else { return [] }
        if value.isObject {
            // Some bodies contain an empty object if there is no receipt info.
            return value.isEmptyObject ? [] : [RowObject(value: value, base: base, index: nil)]
        }
        let elements = value.elements(atMost: Self.rowsMax + 1)
        if elements.count > Self.rowsMax {
            defects.append(
                Defect(path: base.description, problem: "rows after the first \(Self.rowsMax) are passed over"))
        }
        return elements.prefix(Self.rowsMax).enumerated().map { index, element in
            RowObject(value: element, base: base, index: index)
        }
    }
}
