import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Readers
import Subscriptions

/// What StoreKit 2 gives an app: signed transactions, verified without asking Apple. A backend may also name the id of a
/// transaction, about which Apple is asked.
package struct TransactionHandIn: HandInSource {
    private let verifier: NotificationVerifier
    private let apps: Set<String>
    private let lookup: TransactionLookup?
    private let ledger: HandInLedger
    private let clock: StoreClock
    private let metrics: DeviceMetrics
    private let logger: Logger

    /// - Parameters:
    ///   - lookup: Nil if Apple cannot be asked.
    ///   - log: With the rights of `subledger_reader`, as well as `subscriptions`.
    package init(
        verifier: NotificationVerifier, apps: Set<String>, lookup: TransactionLookup? = nil, log: LogReader,
        subscriptions: SubscriptionReader,
        appender: Appender, links: LinkService, clock: StoreClock,
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.verifier = verifier
        self.apps = apps
        self.lookup = lookup
        self.clock = clock
        self.logger = logger
        ledger = HandInLedger(
            news: NewsAppender(log: log, subscriptions: subscriptions, appender: appender),
            links: PurchaseLinks(log: log, links: links, clock: clock))
        metrics = DeviceMetrics(factory: factory)
    }

    package func accepts(_ app: String) -> Bool { apps.contains(app) }

    /// All signed texts are accepted or none.
    package func handIn(_ request: HandInRequest) async throws -> HandInResult {
        let verified: [VerifiedStatement]
        let receivedAt = clock.date()
        let customer = try request.customer("appAccountToken")
        if let id = try request.transactionId() {
            guard let lookup else { throw HandInRefusal(TransactionLookup.Failure.noKey) }
            do {
                let found = try await lookup.find(id, of: request.app)
                verified = try await verify(found, of: request.app, at: receivedAt)
            } catch let failure as TransactionLookup.Failure {
                throw HandInRefusal(failure)
            } catch is StatementRefusal {
                // What Apple answers is not the sender's mistake.
                throw HandInRefusal(TransactionLookup.Failure.unavailable)
            }
        } else {
            do {
                verified = try await verify(try request.statements(), of: request.app, at: receivedAt)
            } catch let refusal as StatementRefusal {
                throw HandInRefusal(refusal)
            }
        }
        try request.admit(
            verified[0].stream, verified.map { $0.evidence.slices.reduce(0) { $0 + $1.count } })
        // What Apple answers about an id is signed, but the sender of the id may have guessed it, so it moves nothing.
        let basis: LinkStatement.Basis =
            verified.allSatisfy { $0.event.source == .appleDevice } ? .purchase : .id
        if basis == .purchase { try await request.admitMove(Set(verified.flatMap(\.event.subscriptions)).map(\.text)) }
        // A separate task: if the caller is cancelled, purchases that were stored are linked nevertheless.
        return .answered(try await Task { try await store(verified, at: receivedAt, customer, basis) }.value)
    }

    /// - Parameter statements: Called once, so that what cannot be decoded is counted too.
    private func verify(
        _ statements: @autoclosure () throws -> [SignedStatement], of app: String, at receivedAt: Instant
    ) async throws -> [VerifiedStatement] {
        do {
            var verified: [VerifiedStatement] = []
            for statement in try statements() {
                let next = try await verifier.verify(statement, of: app, receivedAt: receivedAt)
                guard next.stream == verified.first?.stream ?? next.stream else {
                    throw statement.refusal(.otherEnvironment)
                }
                verified.append(next)
            }
            return verified
        } catch let refusal as StatementRefusal {
            metrics.noteRefusal()
            logger.notice(
                "signed data of a device rejected",
                metadata: ["stream.app": "\(app)", "device.problem": "\(refusal.label)"])
            throw refusal
        }
    }

    /// - Parameter verified: Not empty.
    private func store(
        _ verified: [VerifiedStatement], at receivedAt: Instant, _ customer: HandInCustomer?,
        _ basis: LinkStatement.Basis
    ) async throws -> HandInAnswer {
        let answer = try await ledger.keep(
            verified, receivedAt: receivedAt, to: customer, basis: basis,
            noting: { metrics.note(isNews: $0) })
        var metadata = answer.stream.metadata(["device.statements": "\(verified.count)"])
        if let position = answer.position { metadata["event.position"] = "\(position)" }
        logger.info("signed data of a device accepted", metadata: metadata)
        return answer
    }
}

extension HandInRequest {
    /// The id to ask Apple about; nil if the body contains signed texts.
    fileprivate func transactionId() throws(HandInRefusal) -> String? {
        guard let value = body["transactionId"], !value.isNull else { return nil }
        guard let id = value.string, (1...Limits.transactionIdLengthMax).contains(id.utf8.count),
            id.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { throw HandInRefusal(.malformed, "transactionId must be a string of digits", field: "transactionId") }
        // Knowing an id does not show that one made the purchase.
        guard !isOfApp else {
            throw HandInRefusal(
                .forbidden, "a publishable token hands in signed texts only", field: "transactionId")
        }
        let others = [body["signedTransaction"], body["signedRenewalInfo"], body["appTransaction"]]
        guard others.allSatisfy({ $0?.isNull ?? true }) else {
            throw HandInRefusal(
                .malformed, "transactionId and signed texts exclude each other", field: "transactionId")
        }
        return id
    }

    /// - Throws: ``HandInRefusal``, ``StatementRefusal``.
    fileprivate func statements() throws -> [SignedStatement] {
        let transactions = try texts(body["signedTransaction"], "signedTransaction")
        let renewals = try texts(body["signedRenewalInfo"], "signedRenewalInfo")
        let appTransactions = try body["appTransaction"].map { try texts([$0], "appTransaction") } ?? []
        guard !transactions.isEmpty || !appTransactions.isEmpty else {
            throw HandInRefusal(
                .malformed,
                "signedTransaction must be a string, or a list of 1 to \(Limits.transactionsMax) strings",
                field: "signedTransaction")
        }
        return try SignedStatement.decode(
            transactions: transactions, renewals: renewals, appTransaction: appTransactions.first)
    }

    /// The signed texts of a member that contains one or a list of them; empty if it is absent or null.
    private func texts(_ value: JSONValue?, _ field: String) throws(HandInRefusal) -> [ArraySlice<UInt8>] {
        guard let value, !value.isNull else { return [] }
        guard value.isArray else { return try texts([value], field) }
        let elements = value.elements(atMost: Limits.transactionsMax + 1)
        guard (1...Limits.transactionsMax).contains(elements.count) else {
            throw HandInRefusal(
                .malformed, "\(field) must be a string, or a list of 1 to \(Limits.transactionsMax) strings",
                field: field)
        }
        return try texts(elements, field)
    }

    private func texts(_ values: [JSONValue], _ field: String) throws(HandInRefusal) -> [ArraySlice<UInt8>] {
        var texts: [ArraySlice<UInt8>] = []
        for (place, value) in values.enumerated() where !value.isNull || values.count > 1 {
            guard value.isString else {
                let path = values.count > 1 ? "\(field)[\(place)]" : field
                throw HandInRefusal(.malformed, "\(path) must be a string with a signed text", field: path)
            }
            texts.append(value.unescapedBytes[...])
        }
        return texts
    }
}

extension HandInRefusal {
    fileprivate init(_ refusal: StatementRefusal) {
        let kind: Kind =
            switch refusal.problem {
            case .tooLong: .tooLong
            case .malformed, .otherKind, .otherPurchase, .otherEnvironment: .malformed
            case .unverified(.revocationUnknown): .unavailable
            case .unverified, .otherApp, .appleIdWrong, .environmentRefused, .appUnknown: .refused
            }
        self.init(kind, refusal.description, field: refusal.field)
    }

    fileprivate init(_ failure: TransactionLookup.Failure) {
        switch failure {
        case .noKey:
            self.init(.notFound, "this app is not configured with a key for the App Store Server API", field: "app")
        case .notFound:
            self.init(.notFound, "the App Store does not know this transaction", field: "transactionId")
        case .refused:
            self.init(.malformed, "the App Store refuses this transactionId", field: "transactionId")
        case .keyRejected:
            // The operator finds the alarm in the log.
            self.init(.unavailable, "Apple cannot be asked about this app: see the server log")
        case .unavailable: self.init(.unavailable, "the App Store has no usable answer now")
        }
    }
}
