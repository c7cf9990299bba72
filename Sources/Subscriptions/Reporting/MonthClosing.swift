import Encoding

/// The figures of a month as an operator closed it, or the statement that it is open again.
///
/// Source: analytics, "closed months": what was reported then can be compared with what the log says now.
package struct MonthClosing: Sendable, Hashable {
    package enum Action: String, Sendable, Hashable {
        case close
        case reopen
    }

    /// One figure for a product, country and currency, as far as it is given by them.
    package struct Figure: Sendable, Hashable {
        package let name: String
        package let productId: String?
        /// ISO 3166-1 alpha-3.
        package let country: String?
        /// ISO 4217.
        package let currency: String?
        package let count: Int64?
        /// A decimal number, in the currency unit.
        package let amount: String?

        package init(
            name: String, productId: String?, country: String?, currency: String?, count: Int64?, amount: String?
        ) {
            self.name = name
            self.productId = productId
            self.country = country
            self.currency = currency
            self.count = count
            self.amount = amount
        }
    }

    /// By the operator's head key.
    package struct Signature: Sendable, Hashable {
        /// Ed25519, 32 bytes.
        package let publicKey: [UInt8]
        /// 64 bytes, of ``MonthClosing/signedText``.
        package let bytes: [UInt8]

        package init(publicKey: [UInt8], bytes: [UInt8]) {
            self.publicKey = publicKey
            self.bytes = bytes
        }
    }

    package let action: Action
    /// As `2026-10`.
    package let month: String
    /// The last event that the figures contain.
    package let position: Int64
    /// The value of the hash chain there, 32 bytes.
    package let chain: [UInt8]
    package let at: Instant
    package let by: String
    package let reason: String?
    package let figures: [Figure]
    package var signature: Signature?

    package init(
        _ action: Action, month: String, position: Int64, chain: [UInt8], at: Instant, by: String, reason: String?,
        figures: [Figure]
    ) {
        self.action = action
        self.month = month
        self.position = position
        self.chain = chain
        self.at = at
        self.by = by
        self.reason = reason
        self.figures = figures
    }

    /// Creates the event to append to the log.
    ///
    /// - Parameter dedupeKey: Must differ when a month is closed again later.
    package func event(environment: Environment, app: String?, receivedAt: Instant, dedupeKey: DedupeKey) -> Event {
        var event = Event(
            source: .operator, environment: environment, app: app, type: nil, subtype: nil,
            kind: action == .close ? .monthClosed : .monthReopened, dedupeKey: dedupeKey, occurredAt: receivedAt,
            transactions: [], renewals: [], defects: [])
        event.closing = self
        return event
    }
}

// MARK: - JSON

extension MonthClosing {
    /// Whether the body of an operator's event is one of these.
    package static func isClosing(_ json: JSONValue) -> Bool { json.string("month") != nil }

    /// The canonical JSON, which is the body of the event.
    package var canonicalText: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    /// What is signed: the canonical JSON without the signature.
    package var signedText: [UInt8] {
        var unsigned = self
        unsigned.signature = nil
        return unsigned.canonicalText
    }

    /// `{"action":"close","month":"2026-10","position":…,"chain":…,"at":…,"by":…,"reason":…,"publicKey":…,"signature":…,
    /// "figures":[{"figure":…,"productId":…,"country":…,"currency":…,"count":…,"amount":…}]}`
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("action", action.rawValue)
            writer.member("month", month)
            writer.member("position", position)
            writer.member("chain", Hex.text(chain))
            writer.member("at", at)
            writer.member("by", by)
            writer.member("reason", reason)
            if let signature {
                writer.member("publicKey", Hex.text(signature.publicKey))
                writer.member("signature", Hex.text(signature.bytes))
            }
            writer.key("figures")
            writer.array(figures) { writer, figure in
                writer.object { writer in
                    writer.member("figure", figure.name)
                    writer.member("productId", figure.productId)
                    writer.member("country", figure.country)
                    writer.member("currency", figure.currency)
                    writer.member("count", figure.count)
                    writer.member("amount", figure.amount)
                }
            }
        }
    }

    /// Reads the JSON that ``write(to:)`` writes.
    package init(json: JSONValue) throws(FactsError) {
        guard let action = json.string("action").flatMap(Action.init(rawValue:)) else {
            throw FactsError(member: "closing.action")
        }
        guard let position = json["position"]?.int64 else { throw FactsError(member: "closing.position") }
        guard let at = try json.instant("at") else { throw FactsError(member: "closing.at") }
        var figures: [Figure] = []
        for element in try json.requiredElements("figures") { figures.append(try Figure(json: element)) }
        self.init(
            action, month: try json.required("month"), position: position,
            chain: try Self.bytes(try json.required("chain"), 32, "closing.chain"), at: at, by: try json.required("by"),
            reason: json.string("reason"), figures: figures)
        if let text = json.string("signature") {
            signature = Signature(
                publicKey: try Self.bytes(try json.required("publicKey"), 32, "closing.publicKey"),
                bytes: try Self.bytes(text, 64, "closing.signature"))
        }
    }

    private static func bytes(_ text: String, _ count: Int, _ member: String) throws(FactsError) -> [UInt8] {
        let bytes = Array(text.utf8).withUnsafeBufferPointer { Hex.bytes($0) }
        guard let bytes, bytes.count == count else { throw FactsError(member: member) }
        return bytes
    }
}

extension MonthClosing.Figure {
    package init(json: JSONValue) throws(FactsError) {
        self.init(
            name: try json.required("figure"), productId: json.string("productId"), country: json.string("country"),
            currency: json.string("currency"), count: json["count"]?.int64, amount: json.string("amount"))
    }
}
