import AppStore
import Encoding
import HTTPTypes
import Hummingbird
import StoreClient
import Subscriptions

/// `POST /transactions` hands in what StoreKit 2 gives an app: signed transactions, verified without asking Apple; or the
/// id of a transaction, about which Apple is asked.
struct TransactionRoutes: Sendable {
    let devices: DeviceService?
    let purchases: PurchaseReader
    private let bodies = BodyReader()
    private let rate = HandInRate()
    private let localStreams = LocalStreams()

    init(devices: DeviceService?, purchases: PurchaseReader) {
        self.devices = devices
        self.purchases = purchases
    }

    func add(to routes: PrivateRoutes) {
        routes.apps.submit.post("/transactions") { request, _ in try await handIn(request) }
    }

    private func handIn(_ request: Request) async throws -> Response {
        let query = RequestQuery(request)
        let (app, granted) = (try query.app(), try query.granting())
        try AppUser.current?.check(app: app)
        guard let devices else {
            throw Problem(
                .notImplemented,
                "transactions disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        guard devices.accepts(app) else { throw Problem(.notFound, "this app is not configured", field: "app") }
        do {
            // What waits for its commit holds no body any more, only what will be stored.
            let (verified, customerId) = try await bodies.withJSON(
                of: request, bytesMax: Limits.transactionsBodyBytesMax
            ) { json in
                let customerId = try AppUser.customerId(of: json)
                try rate.admit(customerId, app)
                let verified = try await verify(json, app, devices)
                try granted.check(verified.stream.environment)
                return (verified, customerId)
            }
            return try await answer(try await devices.store(verified, customerId: customerId), customerId, devices)
        } catch BodyReader.Failure.tooLarge {
            throw Problem(.contentTooLarge, "the body is larger than \(Limits.transactionsBodyBytesMax) bytes")
        }
    }

    // MARK: - Requests

    private func verify(_ json: JSONValue, _ app: String, _ devices: DeviceService) async throws
        -> DeviceService.Verified
    {
        let statements: [SignedStatement]
        let id = try Self.transactionId(json)
        if let id {
            do throws(TransactionLookup.Failure) {
                statements = try await devices.find(id, of: app)
            } catch {
                throw Problem(error)
            }
        } else {
            statements = try Self.statements(json) { devices.note(refusal: $0, app) }
        }
        let verified: DeviceService.Verified
        do throws(StatementRefusal) {
            verified = try await devices.verify(statements, of: app)
        } catch {
            // What Apple answers is not the sender's mistake.
            guard id == nil else { throw Problem(TransactionLookup.Failure.unavailable) }
            throw Problem(error)
        }
        do throws(LocalStreams.Excess) {
            for statement in verified.statements {
                let bytes = statement.evidence.slices.reduce(0) { $0 + $1.count }
                try localStreams.admit(verified.stream, bodyBytes: bytes)
            }
        } catch {
            throw Problem(error.status, error.problem)
        }
        return verified
    }

    /// The id to ask Apple about; nil if the body contains signed texts.
    private static func transactionId(_ json: JSONValue) throws -> String? {
        guard let value = json["transactionId"], !value.isNull else { return nil }
        guard let id = value.string, (1...Limits.transactionIdLengthMax).contains(id.utf8.count),
            id.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else {
            throw RequestQuery.Malformed(problem: "transactionId must be a string of digits", field: "transactionId")
        }
        // Knowing an id does not show that one made the purchase.
        guard AppUser.current == nil else {
            throw Problem(.forbidden, "a publishable token hands in signed texts only", field: "transactionId")
        }
        let others = [json["signedTransaction"], json["signedRenewalInfo"], json["appTransaction"]]
        guard others.allSatisfy({ $0?.isNull ?? true }) else {
            throw RequestQuery.Malformed(
                problem: "transactionId and signed texts exclude each other", field: "transactionId")
        }
        return id
    }

    private static func statements(
        _ json: JSONValue, noting note: (StatementRefusal) -> Void
    ) throws -> [SignedStatement] {
        let transactions = try texts(json["signedTransaction"], "signedTransaction")
        let renewals = try texts(json["signedRenewalInfo"], "signedRenewalInfo")
        let appTransactions = try json["appTransaction"].map { try texts([$0], "appTransaction") } ?? []
        guard !transactions.isEmpty || !appTransactions.isEmpty else {
            throw RequestQuery.Malformed(
                problem: "signedTransaction must be a string, or a list of 1 to \(Limits.transactionsMax) strings",
                field: "signedTransaction")
        }
        do throws(StatementRefusal) {
            return try SignedStatement.decode(
                transactions: transactions, renewals: renewals, appTransaction: appTransactions.first)
        } catch {
            note(error)
            throw Problem(error)
        }
    }

    /// The signed texts of a member that contains one or a list of them; empty if it is absent or null.
    private static func texts(_ value: JSONValue?, _ field: String) throws -> [ArraySlice<UInt8>] {
        guard let value, !value.isNull else { return [] }
        guard value.isArray else { return try texts([value], field) }
        let elements = value.elements(atMost: Limits.transactionsMax + 1)
        guard (1...Limits.transactionsMax).contains(elements.count) else {
            throw RequestQuery.Malformed(
                problem: "\(field) must be a string, or a list of 1 to \(Limits.transactionsMax) strings", field: field)
        }
        return try texts(elements, field)
    }

    private static func texts(_ values: [JSONValue], _ field: String) throws -> [ArraySlice<UInt8>] {
        try values.filter { !$0.isNull || values.count > 1 }.enumerated().map { place, value in
            guard value.isString else {
                let path = values.count > 1 ? "\(field)[\(place)]" : field
                throw RequestQuery.Malformed(problem: "\(path) must be a string with a signed text", field: path)
            }
            return value.unescapedBytes[...]
        }
    }

    // MARK: - Responses

    private func answer(
        _ outcome: DeviceService.Outcome, _ customerId: String?, _ devices: DeviceService
    ) async throws -> Response {
        var isProjected = true
        if let position = outcome.lastPosition {
            localStreams.note(outcome.stream, position)
            isProjected = try await devices.isFolded(outcome.stream, through: position)
        }
        let content = try await purchases.content(
            of: outcome.subscriptions, customerId: customerId, in: outcome.stream, isLinked: outcome.isLinked,
            isProjected: isProjected)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", outcome.stream.app)
            writer.member("environment", outcome.stream.environment.rawValue)
            writer.member("customerId", customerId)
            writer.member("registered", content.registration(outcome.registration).rawValue)
            content.write(position: outcome.position, to: &writer)
        }
    }
}

extension Problem {
    /// 503 if certificates cannot be checked now, 422 for texts that are of no use, 400 and 413 for what is no such text.
    fileprivate init(_ refusal: StatementRefusal) {
        let status: HTTPResponse.Status =
            switch refusal.problem {
            case .tooLong: .contentTooLarge
            case .malformed, .otherKind, .otherPurchase, .otherEnvironment: .badRequest
            case .unverified(.revocationUnknown): .serviceUnavailable
            case .unverified, .otherApp, .appleIdWrong, .environmentRefused, .appUnknown: .unprocessableContent
            }
        self.init(status, refusal.description, field: refusal.field)
    }
}

extension Problem {
    fileprivate init(_ failure: TransactionLookup.Failure) {
        switch failure {
        case .noKey:
            self.init(.notFound, "this app is not configured with a key for the App Store Server API", field: "app")
        case .notFound:
            self.init(.notFound, "the App Store does not know this transaction", field: "transactionId")
        case .refused:
            self.init(.badRequest, "the App Store refuses this transactionId", field: "transactionId")
        case .keyRejected:
            // The operator finds the alarm in the log.
            self.init(.serviceUnavailable, "Apple cannot be asked about this app: see the server log")
        case .unavailable: self.init(.serviceUnavailable, "the App Store has no usable answer now")
        }
    }
}
