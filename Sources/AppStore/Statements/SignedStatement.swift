import Crypto
import Encoding
import Subscriptions

/// Signed data that an app got from StoreKit 2 and its backend handed in, or that an answer of the App Store Server API
/// contains. Decoded and not verified, so it must not be trusted.
///
/// One transaction, with the renewal info of its subscription if the app has it, or one app transaction. Each is an
/// event of its own: Apple signs no list, so nothing proves that the transactions of one request belong together.
package struct SignedStatement: Sendable {
    /// The signed texts, named by the members that contain them.
    package enum Part: String, Sendable, CaseIterable {
        case transaction = "signedTransaction"
        case renewal = "signedRenewalInfo"
        case appTransaction = "appTransaction"
    }

    private enum Content {
        case transaction(JWS, renewal: JWS?)
        case appTransaction(JWS)
    }

    /// Who gave it to us: ``EventSource/appleDevice`` or ``EventSource/appleAPI``.
    package private(set) var source: EventSource
    private var content: Content
    /// The place of the transaction in the list that was handed in, for errors; nil if there was no list.
    private var index: Int?

    /// Apple's transactions have about 8,000 characters, most of them certificates.
    package static let textBytesMax = 128 << 10

    /// - Parameters:
    ///   - renewal: The renewal info of the transaction's subscription, which names no app: the transaction proves whose
    ///     it is.
    ///   - source: See ``source``.
    package init(
        transaction text: ArraySlice<UInt8>, renewal: ArraySlice<UInt8>? = nil, source: EventSource = .appleDevice
    ) throws(StatementRefusal) {
        self.source = source
        let transaction = try Self.decode(text, .transaction)
        content = .transaction(transaction, renewal: nil)
        guard let renewal else { return }
        guard let whole = adding(renewal: try Self.decode(renewal, .renewal)) else {
            throw StatementRefusal(.renewal, .otherPurchase)
        }
        self = whole
    }

    /// Decodes what one request contains.
    ///
    /// - Parameters:
    ///   - transactions: A single one, or several, whose errors name their place.
    ///   - renewals: Each joins the first transaction of its subscription that has none yet.
    /// - Returns: One statement for each transaction, in their order, and the app transaction, if there is one.
    package static func decode(
        transactions: [ArraySlice<UInt8>], renewals: [ArraySlice<UInt8>], appTransaction: ArraySlice<UInt8>?
    ) throws(StatementRefusal) -> [SignedStatement] {
        var statements: [SignedStatement] = []
        for (place, text) in transactions.enumerated() {
            let index = transactions.count > 1 ? place : nil
            do throws(StatementRefusal) {
                var statement = try SignedStatement(transaction: text)
                statement.index = index
                statements.append(statement)
            } catch {
                throw error.at(index)
            }
        }
        for (place, text) in renewals.enumerated() {
            let index = renewals.count > 1 ? place : nil
            do throws(StatementRefusal) {
                let renewal = try decode(text, .renewal)
                var isJoined = false
                for index in statements.indices where !isJoined {
                    guard let whole = statements[index].adding(renewal: renewal) else { continue }
                    statements[index] = whole
                    isJoined = true
                }
                guard isJoined else { throw StatementRefusal(.renewal, .otherPurchase) }
            } catch {
                throw error.at(index)
            }
        }
        if let appTransaction { statements.append(try SignedStatement(appTransaction: appTransaction)) }
        return statements
    }

    /// The statement with renewal info added; nil if that is about another purchase, or the statement has one.
    private func adding(renewal: JWS) -> SignedStatement? {
        guard case .transaction(let transaction, renewal: nil) = content,
            Self.subscription(renewal) == Self.subscription(transaction),
            AppClaim(renewal.payload.root).environment == environment
        else { return nil }
        var whole = self
        whole.content = .transaction(transaction, renewal: renewal)
        return whole
    }

    /// The refusal of the statement's first part.
    package func refusal(_ problem: StatementRefusal.Problem) -> StatementRefusal {
        StatementRefusal(parts[0].part, problem).at(index)
    }

    /// The refusal of one of the statement's parts by a check of notifications.
    func refusal(of part: Part, _ refusal: Refusal) -> StatementRefusal {
        StatementRefusal(part, refusal: refusal).at(part == .transaction ? index : nil)
    }

    package init(
        appTransaction text: ArraySlice<UInt8>, source: EventSource = .appleDevice
    ) throws(StatementRefusal) {
        self.source = source
        content = .appTransaction(try Self.decode(text, .appTransaction))
    }

    /// Decodes a statement as the log stores it; nil if the body is none.
    ///
    /// - Throws: ``StatementRefusal`` if a part of it is not the signed text that it should be.
    package init?(decoding body: [UInt8], source: EventSource = .appleDevice) throws(StatementRefusal) {
        guard let document = try? JSONDocument(body) else { return nil }
        func text(_ part: Part) -> ArraySlice<UInt8>? {
            let value = document.root.string(named: part)
            return value.map { $0.isEscaped ? $0.unescapedBytes[...] : document.bytes[$0.contentRange] }
        }
        if let transaction = text(.transaction) {
            try self.init(transaction: transaction, renewal: text(.renewal), source: source)
        } else if let appTransaction = text(.appTransaction) {
            try self.init(appTransaction: appTransaction, source: source)
        } else {
            return nil
        }
    }

    /// Decodes a part and checks that its payload is of the kind that its member promises: Apple signs all kinds with the
    /// same certificates.
    private static func decode(_ text: ArraySlice<UInt8>, _ part: Part) throws(StatementRefusal) -> JWS {
        guard text.count <= textBytesMax else { throw StatementRefusal(part, .tooLong) }
        let jws: JWS
        do throws(MalformedJWS) {
            jws = try JWS(text)
        } catch {
            throw StatementRefusal(part, .malformed(error))
        }
        var fields = JSONFields(jws.payload.root)
        let isTransaction = fields.identifier("transactionId") != nil
        let namesSubscription = fields.identifier("originalTransactionId") != nil
        let isOfKind =
            switch part {
            case .transaction: isTransaction && namesSubscription
            case .renewal: !isTransaction && namesSubscription
            case .appTransaction:
                !isTransaction && !namesSubscription
                    && (fields.text("receiptType") != nil || fields.instant("receiptCreationDate") != nil)
            }
        guard isOfKind else { throw StatementRefusal(part, .otherKind) }
        return jws
    }

    private static func subscription(_ jws: JWS) -> String? {
        var fields = JSONFields(jws.payload.root)
        return fields.identifier("originalTransactionId")
    }

    /// The signed parts. The first one names the app and the environment.
    var parts: [(part: Part, jws: JWS)] {
        switch content {
        case .transaction(let transaction, let renewal):
            [(.transaction, transaction)] + (renewal.map { [(.renewal, $0)] } ?? [])
        case .appTransaction(let appTransaction): [(.appTransaction, appTransaction)]
        }
    }

    /// Nil if none is named; ``Subscriptions/Environment/unknown`` if this version does not know the name.
    package var environment: Environment? { AppClaim(first.payload.root).environment }

    var bundleId: String? { AppClaim(first.payload.root).bundleId }

    private var first: JWS {
        switch content {
        case .transaction(let jws, _), .appTransaction(let jws): jws
        }
    }

    /// The body to store: an object with each signed text as it arrived.
    package var evidence: Evidence {
        var pieces: [Evidence.Piece] = []
        for (place, entry) in parts.enumerated() {
            let before = (place == 0 ? "{\"" : "\",\"") + entry.part.rawValue + "\":\""
            pieces += [.bytes(Array(before.utf8)[...]), .jws(entry.jws.content)]
        }
        return Evidence(pieces + [.bytes(Array("\"}".utf8)[...])])
    }

    /// Returns the statement as a normalised event.
    package func event() -> Event {
        var reader = SignedPartReader()
        var transactions: [Transaction] = []
        var renewals: [RenewalInfo] = []
        var details: [(key: String, value: CanonicalJSON)] = []
        switch content {
        case .transaction(let transaction, let renewal):
            transactions += [reader.transaction(transaction, base: "signedTransaction", of: nil)].compactMap(\.self)
            renewals += [renewal.flatMap { reader.renewal($0, base: "signedRenewalInfo") }].compactMap(\.self)
        case .appTransaction(let appTransaction):
            details.append(("appTransaction", reader.appTransaction(appTransaction)))
        }
        if first.signedDate == nil {
            reader.defects.append(Defect(path: "signedDate", problem: "is missing or unreadable"))
        }
        return Event(
            source: source, environment: environment ?? .unknown, app: bundleId, type: nil, subtype: nil,
            kind: details.isEmpty ? .transaction : .appTransaction, dedupeKey: dedupeKey, occurredAt: first.signedDate,
            transactions: transactions, renewals: renewals,
            details: details.isEmpty ? nil : CanonicalJSON(members: details), defects: reader.defects,
            unknownFields: reader.unknownFields)
    }

    /// SHA-256 of the signed texts. Of an app transaction, SHA-256 of its content without the fields that differ with each
    /// request and device: an app gets it signed again whenever it asks.
    private var dedupeKey: DedupeKey {
        var hasher = SHA256()
        switch content {
        case .transaction(let transaction, let renewal):
            for jws in [transaction, renewal].compactMap(\.self) {
                hasher.update(data: jws.signedText)
                hasher.update(data: [UInt8(ascii: "\n")])
            }
        case .appTransaction(let jws):
            let members = jws.payload.root.members
                .map { (key: $0.key.repairedString, value: CanonicalJSON($0.value)) }
                .filter { !SignedPartReader.deviceFields.contains($0.key) && !Self.timeFields.contains($0.key) }
            hasher.update(data: CanonicalJSON(members: members).utf8)
        }
        return DedupeKey(bytes: Array(hasher.finalize()))
    }

    private static let timeFields: Set<String> = ["receiptCreationDate", "signedDate"]
}

extension JSONValue {
    /// The member of a part, if it is a string.
    fileprivate func string(named part: SignedStatement.Part) -> JSONValue? {
        let value =
            switch part {
            case .transaction: self["signedTransaction"]
            case .renewal: self["signedRenewalInfo"]
            case .appTransaction: self["appTransaction"]
            }
        return value.flatMap { $0.isString ? $0 : nil }
    }
}
