import Encoding

/// Access that an operator or a backend gives to one of its customers by hand, or takes back.
///
/// It is a period like a purchase's, with an id of its own and without a payer: a later statement about the grant replaces
/// an earlier one. The customer has it by a link.
package struct GrantStatement: Sendable, Hashable {
    /// Chosen by the one who gives it.
    package let id: String
    /// The backend's own id.
    package let customerId: ByteString
    package let entitlement: String
    package let from: Instant
    /// Nil if it has no end.
    package let until: Instant?
    /// Recorded, and shown to people.
    package let reason: String
    /// Who gave it or took it back; nil if it is not stated.
    package let by: String?
    /// Whether it takes the grant back, from ``until`` on.
    package let isRevocation: Bool

    package static let idBytesMax = 64
    package static let textBytesMax = 500

    /// An invalid field of a grant.
    package struct Malformed: Error, Hashable, CustomStringConvertible {
        package let field: String
        let problem: String

        package var description: String { "\(field) \(problem)" }
    }

    /// - Throws: ``Malformed``.
    package init(
        id: String, customerId: String, entitlement: String, from: Instant, until: Instant?, reason: String,
        by: String?, isRevocation: Bool = false
    ) throws(Malformed) {
        func check(_ text: String, _ field: String, atMost bytesMax: Int) throws(Malformed) {
            guard text.contains(where: { !$0.isWhitespace }), text.utf8.count <= bytesMax,
                !text.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 })
            else { throw Malformed(field: field, problem: "must be a line of 1 to \(bytesMax) bytes") }
        }
        guard (1...Self.idBytesMax).contains(id.utf8.count), id.utf8.allSatisfy(Self.isAllowed) else {
            throw Malformed(
                field: "grantId",
                problem: "must have 1 to \(Self.idBytesMax) letters, digits, dots, hyphens or underscores")
        }
        try check(customerId, "customerId", atMost: LinkStatement.idBytesMax)
        try check(entitlement, "entitlement", atMost: LinkStatement.idBytesMax)
        try check(reason, "reason", atMost: Self.textBytesMax)
        if let by { try check(by, "by", atMost: Self.textBytesMax) }
        if let until, until <= from, !isRevocation { throw Malformed(field: "until", problem: "must be after from") }
        self.id = id
        self.customerId = ByteString(customerId)
        self.entitlement = entitlement
        self.from = from
        self.until = until
        self.reason = reason
        self.by = by
        self.isRevocation = isRevocation
    }

    /// Whether an id may have a byte.
    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    /// Whether it gives what the other one gives, at the same time.
    package func gives(sameAs other: GrantStatement) -> Bool {
        (entitlement, from, until) == (other.entitlement, other.from, other.until)
    }

    /// The `originalTransactionId` of the period.
    package var key: CustomerKey { Self.key(of: id) }

    /// The id of the grant whose period has a transaction id; nil if that is not one of a grant.
    static func id(_ transactionId: String) -> String? {
        guard transactionId.hasPrefix(CustomerKey.grantPrefix) else { return nil }
        return String(transactionId.dropFirst(CustomerKey.grantPrefix.count))
    }

    package static func key(of id: String) -> CustomerKey { CustomerKey(.subscription, CustomerKey.grantPrefix + id) }
}

extension CustomerKey {
    /// No id of a store begins so.
    static let grantPrefix = "grant:"

    /// Whether it names a grant. What a backend links does not end it.
    package var isGrant: Bool { kind == .subscription && id.text.hasPrefix(Self.grantPrefix) }
}

// MARK: - JSON

extension GrantStatement {
    /// The canonical JSON, which is the body of the event.
    package var canonicalText: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("grant")
            writer.object { writer in
                writer.member("id", id)
                writer.member("customerId", customerId.text)
                writer.member("entitlement", entitlement)
                writer.member("from", from)
                writer.member("until", until)
                writer.member("reason", reason)
                writer.member("by", by)
                if isRevocation { writer.member("revoked", true) }
            }
        }
        return writer.bytes
    }

    /// Whether a body is one of a grant.
    package static func isGrant(_ body: JSONValue) -> Bool { body["grant"] != nil }

    /// Reads the canonical JSON; nil if it is none.
    package init?(body: JSONValue) {
        guard let json = body["grant"], let id = json["id"]?.string, let customerId = json["customerId"]?.string,
            let entitlement = json["entitlement"]?.string, let reason = json["reason"]?.string,
            let from = json["from"]?.string.flatMap({ Instant(iso8601: $0) })
        else { return nil }
        let statement = try? GrantStatement(
            id: id, customerId: customerId, entitlement: entitlement, from: from,
            until: json["until"]?.string.flatMap { Instant(iso8601: $0) }, reason: reason, by: json["by"]?.string,
            isRevocation: json["revoked"]?.bool == true)
        guard let statement else { return nil }
        self = statement
    }

    /// The statement behind the transaction of a grant; nil for any other transaction.
    package init?(of transaction: borrowing Transaction) {
        guard transaction.isGranted, let text = transaction.additional?.utf8, let json = try? JSONDocument(text).root
        else { return nil }
        self.init(body: json)
    }

    /// The statement that took back the grant of a transaction; nil if it was not, and for any other transaction.
    static func revocation(of transaction: borrowing Transaction) -> GrantStatement? {
        guard let statement = GrantStatement(of: transaction), statement.isRevocation else { return nil }
        return statement
    }

    /// What a revocation did, such as `taken back by anna: wrong account`.
    ///
    /// - Parameter instant: When it counts from; nil if the words stand beside it.
    func takenBackWords(on instant: Instant? = nil) -> String {
        let on = instant.map { " on \($0.words)" } ?? ""
        return "taken back\(on)\(by.map { " by \($0)" } ?? ""): \(reason)"
    }

    /// Creates the event to append to the log.
    package func event(
        source: EventSource, environment: Environment, app: String?, receivedAt: Instant, dedupeKey: DedupeKey
    ) -> Event {
        var transaction = Transaction(transactionId: key.id.text, originalTransactionId: key.id.text)
        transaction.productId = entitlement
        transaction.purchaseDate = from
        transaction.originalPurchaseDate = from
        transaction.expiresDate = until
        transaction.inAppOwnershipType = Transaction.granted
        transaction.type =
            (until == nil ? Transaction.ProductType.nonConsumable : Transaction.ProductType.nonRenewing).rawValue
        transaction.additional = (try? JSONDocument(canonicalText)).map { CanonicalJSON($0.root) }
        transaction.signedDate = receivedAt
        return Event(
            source: source, environment: environment, app: app, type: nil, subtype: nil,
            kind: isRevocation ? .grantRevoked : .grant, dedupeKey: dedupeKey, occurredAt: receivedAt,
            transactions: [transaction], renewals: [], defects: [])
    }
}
