import Encoding

// The JSON form of facts: stored in the log beside a body, printed by `inspect` and served to readers.

extension Transaction {
    package func write(to writer: inout JSONWriter) {
        writer.object { writeMembers(to: &$0) }
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("transactionId", transactionId)
        writer.member("originalTransactionId", originalTransactionId)
        visitFields(with: &writer)
        writer.member("additional", additional)
        writer.member("signedDate", signedDate)
    }

    init(json: JSONValue) throws(FactsError) {
        var reader = FactReader(json.indexed)
        self.init(
            transactionId: try reader.json.required("transactionId"),
            originalTransactionId: try reader.json.required("originalTransactionId"))
        setFields(with: &reader)
        if let failure = reader.failure { throw failure }
        additional = reader.json["additional"].map { CanonicalJSON(stored: $0) }
        signedDate = try reader.json.instant("signedDate")
    }
}

extension RenewalInfo {
    package func write(to writer: inout JSONWriter) {
        writer.object { writeMembers(to: &$0) }
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("originalTransactionId", originalTransactionId)
        visitFields(with: &writer)
        writer.member("additional", additional)
        writer.member("signedDate", signedDate)
    }

    init(json: JSONValue) throws(FactsError) {
        var reader = FactReader(json.indexed)
        self.init(originalTransactionId: try reader.json.required("originalTransactionId"))
        setFields(with: &reader)
        if let failure = reader.failure { throw failure }
        additional = reader.json["additional"].map { CanonicalJSON(stored: $0) }
        signedDate = try reader.json.instant("signedDate")
    }
}

extension JSONWriter: FieldVisitor {
    package mutating func visit(_ field: Field, _ source: String?, _ target: inout String?) {
        member(field.name, source)
    }

    package mutating func visit(_ field: Field, _ source: Int?, _ target: inout Int?) {
        member(field.name, source)
    }

    package mutating func visit(_ field: Field, _ source: Int64?, _ target: inout Int64?) {
        member(field.name, source)
    }

    package mutating func visit(_ field: Field, _ source: Bool?, _ target: inout Bool?) {
        member(field.name, source)
    }

    package mutating func visit(_ field: Field, _ source: Instant?, _ target: inout Instant?) {
        member(field.name, source)
    }

    package mutating func visit(_ field: Field, _ source: [String], _ target: inout [String]) {
        guard !source.isEmpty else { return }
        key(field.name)
        array(source) { $0.value($1) }
    }

    package mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool) {
        if source != absent { member(field.name, source) }
    }
}

/// Reads the members that a ``JSONWriter`` wrote.
private struct FactReader: FieldVisitor {
    let json: JSONValue
    /// The first unreadable member.
    private(set) var failure: FactsError?

    init(_ json: JSONValue) {
        self.json = json
    }

    mutating func visit(_ field: Field, _ source: String?, _ target: inout String?) {
        target = json.string(field.name)
    }

    mutating func visit(_ field: Field, _ source: Int?, _ target: inout Int?) {
        target = json.integer(field.name)
    }

    mutating func visit(_ field: Field, _ source: Int64?, _ target: inout Int64?) {
        target = json[field.name]?.int64
    }

    mutating func visit(_ field: Field, _ source: Bool?, _ target: inout Bool?) {
        target = json.bool(field.name)
    }

    mutating func visit(_ field: Field, _ source: Instant?, _ target: inout Instant?) {
        do throws(FactsError) {
            target = try json.instant(field.name)
        } catch {
            failure = failure ?? error
        }
    }

    mutating func visit(_ field: Field, _ source: [String], _ target: inout [String]) {
        target = json[field.name]?.elements.compactMap(\.string) ?? []
    }

    mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool) {
        target = json.bool(field.name) ?? absent
    }
}

/// The facts of one event as stored in the log: `{"transactions":[…],"renewals":[…]}`, with `"accountDeletions":[…]` if
/// an Apple Account was deleted, `"purchases":[…]` if Google reported some, `"link":{…}` if a backend sent one,
/// `"write":{…}` if an operator asks for a change, `"erasure":{…}` if one erased a person's data and `"seat":{…}` if a
/// backend gives a seat to a customer or takes it back.
package struct Facts: Sendable, Hashable {
    package var transactions: [Transaction]
    package var renewals: [RenewalInfo]
    /// The subscriptions of a deleted Apple Account, by `originalTransactionId`.
    package var accountDeletions: [String]
    /// What Google reported about purchases.
    package var purchases: [PurchaseFact]
    package var link: LinkStatement?
    package var write: StoreWrite?
    package var erasure: ErasureStatement?
    package var seat: SeatStatement?

    package init(
        transactions: [Transaction], renewals: [RenewalInfo], accountDeletions: [String] = [],
        purchases: [PurchaseFact] = [], link: LinkStatement? = nil, write: StoreWrite? = nil,
        erasure: ErasureStatement? = nil, seat: SeatStatement? = nil
    ) {
        self.transactions = transactions
        self.renewals = renewals
        self.accountDeletions = accountDeletions
        self.purchases = purchases
        self.link = link
        self.write = write
        self.erasure = erasure
        self.seat = seat
    }

    package init(json: JSONValue) throws(FactsError) {
        transactions = []
        renewals = []
        for element in try json.requiredElements("transactions") { transactions.append(try Transaction(json: element)) }
        for element in try json.requiredElements("renewals") { renewals.append(try RenewalInfo(json: element)) }
        accountDeletions = try json.accountDeletions
        purchases = []
        for element in json["purchases"]?.elements ?? [] { purchases.append(try PurchaseFact(json: element)) }
        if let json = json["link"] { link = try LinkStatement(json: json) }
        if let json = json["write"] { write = try StoreWrite(json: json) }
        if let json = json["erasure"] { erasure = try ErasureStatement(json: json) }
        if let json = json["seat"] { seat = try SeatStatement(json: json) }
    }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.key("transactions")
        writer.array(transactions) { $1.write(to: &$0) }
        writer.key("renewals")
        writer.array(renewals) { $1.write(to: &$0) }
        if !accountDeletions.isEmpty {
            writer.key("accountDeletions")
            writer.array(accountDeletions) { writer, id in
                writer.object { $0.member("originalTransactionId", id) }
            }
        }
        if !purchases.isEmpty {
            writer.key("purchases")
            writer.array(purchases) { $1.write(to: &$0) }
        }
        if let link {
            writer.key("link")
            link.write(to: &writer)
        }
        if let write {
            writer.key("write")
            write.write(to: &writer)
        }
        if let erasure {
            writer.key("erasure")
            erasure.write(to: &writer)
        }
        if let seat {
            writer.key("seat")
            seat.write(to: &writer)
        }
    }

    /// The smallest subscription id, if the event contains several: all subscriptions in one notification or receipt
    /// belong to one Apple Account. Nil if there is only one.
    package var companion: String? {
        let ids = Set(
            transactions.map { ByteString($0.originalTransactionId) }
                + renewals.map { ByteString($0.originalTransactionId) } + accountDeletions.map(ByteString.init))
        return ids.count > 1 ? ids.min()?.text : nil
    }

    /// The facts of each subscription, by `originalTransactionId`; those of Google, by purchase token.
    package var bySubscription: [String: Facts] {
        // Nearly always there is only one.
        if let subscription = transactions.first?.originalTransactionId ?? renewals.first?.originalTransactionId,
            accountDeletions.isEmpty, purchases.isEmpty, erasure == nil, seat == nil,
            transactions.allSatisfy({ $0.originalTransactionId == subscription }),
            renewals.allSatisfy({ $0.originalTransactionId == subscription })
        {
            return [subscription: self]
        }
        var subscriptions: [String: Facts] = [:]
        for transaction in transactions {
            subscriptions[transaction.originalTransactionId, default: Facts(transactions: [], renewals: [])]
                .transactions.append(transaction)
        }
        for renewal in renewals {
            subscriptions[renewal.originalTransactionId, default: Facts(transactions: [], renewals: [])]
                .renewals.append(renewal)
        }
        for id in accountDeletions {
            subscriptions[id, default: Facts(transactions: [], renewals: [])].accountDeletions.append(id)
        }
        for id in erasure?.subscriptions ?? [] {
            subscriptions[id, default: Facts(transactions: [], renewals: [])].erasure = erasure
        }
        for purchase in purchases {
            subscriptions[purchase.purchaseToken, default: Facts(transactions: [], renewals: [])]
                .purchases.append(purchase)
        }
        if let seat {
            subscriptions[seat.originalTransactionId, default: Facts(transactions: [], renewals: [])].seat = seat
        }
        return subscriptions
    }
}

extension Event {
    package var facts: Facts {
        Facts(
            transactions: transactions, renewals: renewals, accountDeletions: accountDeletions, purchases: purchases,
            link: link, write: write, erasure: erasure, seat: seat)
    }

    /// Writes the members that the log stores as facts: the projected facts, under `notification` all other fields, and
    /// under `closing` a closed month.
    package func writeFacts(to writer: inout JSONWriter) {
        facts.writeMembers(to: &writer)
        writer.member("notification", details)
        if let closing {
            writer.key("closing")
            closing.write(to: &writer)
        }
    }

    /// Writes the members that `inspect` prints.
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("source", source.rawValue)
        writer.member("environment", environment.rawValue)
        writer.member("app", app)
        writer.member("type", type)
        writer.member("subtype", subtype)
        writer.member("kind", kind.rawValue)
        writer.member("dedupeKey", dedupeKey.hexadecimal)
        writer.member("notificationUUID", notificationUUID)
        writer.member("occurredAt", occurredAt)
        writeFacts(to: &writer)
        writer.key("defects")
        writer.array(defects) { $1.write(to: &$0) }
    }
}

extension Defect {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("path", path)
            writer.member("problem", problem)
        }
    }
}

/// Stored facts that this version cannot read because they are damaged or a newer version wrote them.
package struct FactsError: Error, Hashable, CustomStringConvertible {
    package let member: String

    package init(member: String) {
        self.member = member
    }

    package var description: String { "stored facts are unreadable at \"\(member)\"" }
}

extension JSONValue {
    func required(_ key: StaticString) throws(FactsError) -> String {
        guard let value = string(key) else { throw FactsError(member: key.description) }
        return value
    }

    func requiredElements(_ key: StaticString) throws(FactsError) -> [JSONValue] {
        guard let value = self[key], value.isArray else { throw FactsError(member: key.description) }
        return value.elements
    }

    /// The subscriptions in the member `accountDeletions` of stored facts.
    var accountDeletions: [String] {
        get throws(FactsError) {
            var ids: [String] = []
            for element in self["accountDeletions"]?.elements ?? [] {
                ids.append(try element.required("originalTransactionId"))
            }
            return ids
        }
    }

    func integer(_ key: StaticString) -> Int? {
        self[key]?.int64.flatMap { Int(exactly: $0) }
    }

    func instant(_ key: StaticString) throws(FactsError) -> Instant? {
        guard let value = self[key] else { return nil }
        if let instant = value.canonicalInstant { return instant }
        guard let text = value.string, let instant = Instant(iso8601: text) else {
            throw FactsError(member: key.description)
        }
        return instant
    }
}
