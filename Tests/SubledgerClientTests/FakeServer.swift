import Crypto
import Foundation

@testable import SubledgerClient

/// A server in memory: its books, its key, and its failures.
///
/// Unchecked: the lock guards all variables.
final class FakeServer: Transport, @unchecked Sendable {
    static let app = "com.example.app"

    private let lock = NSLock()
    private let device: Device
    let key = Curve25519.Signing.PrivateKey()
    /// By transaction: the latest text's sale, and the customer who handed it in.
    private var books: [String: (sale: FakeStore.Sale, customer: String)] = [:]
    private var texts: Set<String> = []
    private var position: Int64 = 0
    private var isAway = false
    private var refusals: [String: Int] = [:]
    private var log: [ClientRequest] = []
    private var violations: [String] = []
    private var nextAnswers: [ClientResponse] = []
    private var issuedAnswers: [Issued] = []

    /// A signed answer that was given.
    struct Issued {
        let customer: String
        let grants: [String: Date?]
        let from: Date
        let until: Date
    }

    init(_ device: Device) {
        self.device = device
    }

    /// The public key, as an app contains it.
    var publicKey: ServerKey {
        guard let key = ServerKey(Self.base64URL(Data(key.publicKey.rawRepresentation))) else {
            preconditionFailure("a new key is a key")
        }
        return key
    }

    var requests: [ClientRequest] { lock.withLock { log } }
    var handIns: Int { requests.count { $0.method == "POST" } }
    /// The sentences about what must not have happened.
    var wrongs: [String] { lock.withLock { violations } }
    var storedIds: Set<String> { lock.withLock { Set(books.keys) } }

    func setAway(_ isAway: Bool) { lock.withLock { self.isAway = isAway } }
    func refuse(product: String, status: Int) { lock.withLock { refusals[product] = status } }
    func answerNext(_ responses: ClientResponse...) { lock.withLock { nextAnswers += responses } }

    /// The app finishes a transaction: the server must have stored its text.
    func noteFinished(_ transaction: SignedTransaction) {
        lock.withLock {
            if !texts.contains(transaction.text) {
                violations.append("\(transaction.id) finished before it was stored")
            }
        }
    }

    /// Whether a signed answer that is valid at a time grants an entitlement.
    func hasAnswered(_ entitlement: String, to customer: String, validAt time: Date) -> Bool {
        lock.withLock {
            issuedAnswers.contains { answer in
                guard answer.customer == customer, answer.from <= time, time < answer.until,
                    let end = answer.grants[entitlement]
                else { return false }
                return end.map { time < $0 } ?? true
            }
        }
    }

    /// Only the server learns of a refund: the device is without network.
    func revoke(_ id: String) {
        lock.withLock {
            guard let known = books[id] else { return }
            var sale = known.sale
            sale.revocationDate = device.time
            books[id] = (sale, known.customer)
            position += 1
        }
    }

    private func granted(_ customer: String, at time: Date) -> [String: Date?] {
        var grants: [String: Date?] = [:]
        for (sale, owner) in books.values where owner == customer && sale.revocationDate == nil {
            guard sale.purchaseDate <= time, sale.expirationDate.map({ time < $0 }) ?? true else { continue }
            let entitlement = Self.entitlement(of: sale.productId)
            guard let known = grants[entitlement] else {
                grants[entitlement] = .some(sale.expirationDate)
                continue
            }
            if let end = known, let other = sale.expirationDate { grants[entitlement] = .some(max(end, other)) }
            if sale.expirationDate == nil { grants[entitlement] = .some(nil) }
        }
        return grants
    }

    static func entitlement(of product: String) -> String { product.hasPrefix("pro") ? "pro" : product }

    // MARK: - Requests

    struct Away: Error {}

    func send(_ request: ClientRequest) async throws -> ClientResponse {
        try lock.withLock {
            guard !isAway else { throw Away() }
            log.append(request)
            if !nextAnswers.isEmpty { return nextAnswers.removeFirst() }
            return try request.method == "POST" ? handIn(request) : entitlements(request)
        }
    }

    private func handIn(_ request: ClientRequest) throws -> ClientResponse {
        let body = try JSONSerialization.jsonObject(with: request.body ?? Data()) as? [String: Any] ?? [:]
        let handed = body["signedTransaction"] as? [String] ?? []
        let customer = body["customerId"] as? String ?? ""
        let sales = handed.compactMap { Self.sale($0) }
        guard sales.count == handed.count else { return Self.problem(400, "signedTransaction is malformed") }
        if let status = sales.compactMap({ refusals[$0.productId] }).first { return Self.problem(status, "refused") }
        for (text, sale) in zip(handed, sales) {
            if let user = sale.user, user.uuidString.lowercased() != customer, request.path.contains("app=") {
                violations.append("\(sale.id) of \(user) handed in by \(customer)")
            }
            if texts.insert(text).inserted { position += 1 }
            // An older text changes nothing.
            if let known = books[sale.id], known.sale.revocationDate != nil { continue }
            books[sale.id] = (sale, customer)
        }
        let entitlements = granted(customer, at: device.time).keys.sorted().map { name in
            let products = sales.map(\.productId).filter { Self.entitlement(of: $0) == name }
            return
                "{\"entitlement\":\"\(name)\",\"productIds\":[\(products.map { "\"\($0)\"" }.joined(separator: ","))]}"
        }
        return ClientResponse(
            status: 200,
            body: Data(
                "{\"environment\":\"production\",\"entitlements\":[\(entitlements.joined(separator: ","))]}".utf8))
    }

    private func entitlements(_ request: ClientRequest) throws -> ClientResponse {
        let customer = request.path.split(separator: "/")[1].removingPercentEncoding ?? ""
        guard books.values.contains(where: { $0.customer == customer }) else { return Self.problem(404, "no customer") }
        let text = token(customer)
        // As the server does: a tag that does not depend on the time to the second.
        let tag =
            "W/\"\(granted(customer, at: device.time).keys.sorted()) \(Int(device.time.timeIntervalSince1970) / 86400)\""
        if request.headers["If-None-Match"] == tag { return ClientResponse(status: 304, headers: ["ETag": tag]) }
        return ClientResponse(status: 200, headers: ["ETag": tag], body: Data(text.utf8))
    }

    static func problem(_ status: Int, _ detail: String) -> ClientResponse {
        ClientResponse(status: status, body: Data("{\"status\":\(status),\"detail\":\"\(detail)\"}".utf8))
    }

    // MARK: - Texts

    /// What a token says other than the truth.
    struct Lie {
        var app = FakeServer.app
        var customer: String?
        var validUntil: Date?
        var type = "subledger-entitlements+jwt"
        var key: Curve25519.Signing.PrivateKey?
    }

    /// A signed answer of now.
    func signedAnswer(_ customer: String, _ lie: Lie = Lie()) -> String { lock.withLock { token(customer, lie) } }

    private func token(_ customer: String, _ lie: Lie = Lie()) -> String {
        let now = device.time
        let grants = granted(customer, at: now).sorted { $0.key < $1.key }
        let week = now.addingTimeInterval(604_800)
        let ends = grants.map { $0.value ?? .distantFuture }
        let validUntil = lie.validUntil ?? ends.max().map { min($0, week) } ?? now.addingTimeInterval(3600)
        issuedAnswers.append(
            Issued(
                customer: customer, grants: Dictionary(uniqueKeysWithValues: grants.map { ($0.key, $0.value) }),
                from: Date(timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down)), until: validUntil))
        let list = grants.map { name, end in
            "{\"entitlement\":\"\(name)\",\"until\":\(end.map { "\"\(Self.text($0))\"" } ?? "null")}"
        }
        let claims = """
            {"sub":"\(lie.customer ?? customer)","aud":"\(lie.app)","environment":"production","knownAs":"link",\
            "position":\(position),"iat":\(Int(now.timeIntervalSince1970)),\
            "exp":\(Int(validUntil.timeIntervalSince1970.rounded(.up))),"entitlements":[\(list.joined(separator: ","))]}
            """
        let header = "{\"alg\":\"EdDSA\",\"typ\":\"\(lie.type)\",\"kid\":\"test\"}"
        let signed = "\(Self.base64URL(Data(header.utf8))).\(Self.base64URL(Data(claims.utf8)))"
        guard let signature = try? (lie.key ?? key).signature(for: Data(signed.utf8)) else {
            preconditionFailure("a private key signs")
        }
        return "\(signed).\(Self.base64URL(Data(signature)))"
    }

    static func text(_ date: Date) -> String {
        date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }

    static func base64URL(_ data: Data) -> String {
        data.base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }

    /// The text of a transaction: its sale, which only this server reads.
    static func sign(_ sale: FakeStore.Sale) -> String {
        let fields: [String] = [
            sale.id, sale.productId, sale.user?.uuidString ?? "", "\(sale.purchaseDate.timeIntervalSince1970)",
            sale.expirationDate.map { "\($0.timeIntervalSince1970)" } ?? "",
            sale.revocationDate.map { "\($0.timeIntervalSince1970)" } ?? "",
        ]
        return fields.joined(separator: "|")
    }

    private static func sale(_ text: String) -> FakeStore.Sale? {
        let fields = text.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
        guard fields.count == 6, let purchased = Double(fields[3]) else { return nil }
        func date(_ text: String) -> Date? { Double(text).map { Date(timeIntervalSince1970: $0) } }
        return FakeStore.Sale(
            id: fields[0], productId: fields[1], user: UUID(uuidString: fields[2]),
            purchaseDate: Date(timeIntervalSince1970: purchased), expirationDate: date(fields[4]),
            revocationDate: date(fields[5]))
    }
}
