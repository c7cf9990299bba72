import AppStore
import Encoding
import EventLog
import Foundation
import Postgres
import Readers
import Simulation
import StoreClient
import Subscriptions
import Synchronization
import TestSupport
import Testing

/// The ways of asking a store, each of which must keep the same promises.
enum AskedStore: String, Sendable, CaseIterable, CustomTestStringConvertible {
    case receipt = "Apple by receipt"
    case key = "Apple by key"
    case google = "Google"

    var testDescription: String { rawValue }

    /// The id of the subscription with this number, and of its first purchase.
    func id(_ number: Int) -> String { self == .google ? "token-\(number)" : String(1_000_000_000_000_000 + number) }
}

/// All three stores at once, as a test says. Subscriptions are bought at ``purchase`` and end at ``end``, unless they are
/// renewed.
final class AskingTransport: StoreTransport {
    /// 2025-09-04T15:33:20Z.
    static let purchase = Instant(milliseconds: 1_757_000_000_000) ?? .earliest
    static let end = purchase.advanced(by: .seconds(30 * 86_400))
    static let renewedEnd = end.advanced(by: .seconds(30 * 86_400))

    enum Mode: Sendable {
        case unchanged
        case renewed
        case unreachable
    }

    private struct State: Sendable {
        var mode = Mode.unchanged
        /// By id: those that differ from the others.
        var modes: [String: Mode] = [:]
        /// How many of the next questions are held, and those that are, by their places among ``questions``.
        var toHold = 0
        var held: Set<Int> = []
        var questions: [String] = []
        /// By id of a purchase of Google Play: the one that it continues.
        var links: [String: String] = [:]
    }

    private let clock: SetClock
    private let state = Mutex(State())

    init(_ clock: SetClock) { self.clock = clock }

    /// The ids about which the store was asked, in order; a call that is repeated counts each time.
    var questions: [String] { state.withLock { $0.questions } }

    func answer(_ mode: Mode) { state.withLock { $0.mode = mode } }
    func answer(_ mode: Mode, about ids: [String]) {
        state.withLock { state in for id in ids { state.modes[id] = mode } }
    }

    func link(_ id: String, to predecessor: String) { state.withLock { $0.links[id] = predecessor } }

    /// Keeps the answers to the next questions back until they are released.
    func hold(_ count: Int = .max) { state.withLock { $0.toHold = count } }
    func release() { state.withLock { ($0.toHold, $0.held) = (0, []) } }

    func send(
        _ sent: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        if sent.url == "https://oauth2.googleapis.com/token" {
            return Self.response(#"{"access_token":"access","expires_in":3599}"#)
        }
        if sent.url.hasSuffix("/oauth2/v3/certs") {
            guard let keys = try? ScriptedGoogle.keySet() else { throw .unreachable }
            return StoreResponse(status: 200, cacheControl: "public, max-age=22000", body: keys)
        }
        if sent.url.contains("/history/") {
            return Self.response(#"{"signedTransactions":[],"revision":"r","hasMore":false}"#)
        }
        if sent.url.contains("/orders/") { return StoreResponse(status: 404, body: Array("{}".utf8)) }
        guard let (store, id) = Self.subject(sent) else { throw .unreachable }
        let place = state.withLock { state in
            state.questions.append(id)
            if state.toHold > 0 {
                state.toHold -= 1
                state.held.insert(state.questions.count)
            }
            return state.questions.count
        }
        while state.withLock({ $0.held.contains(place) }) {
            guard !Task.isCancelled else { throw .cancelled }
            try? await Task.sleep(for: .milliseconds(5))
        }
        let (mode, link) = state.withLock { ($0.modes[id] ?? $0.mode, $0.links[id]) }
        switch mode {
        case .unreachable: throw .unreachable
        case .unchanged: return Self.response(answer(store, id, isRenewed: false, link))
        case .renewed: return Self.response(answer(store, id, isRenewed: true, link))
        }
    }

    private static func response(_ body: String) -> StoreResponse {
        StoreResponse(status: 200, body: Array(body.utf8))
    }

    private static func subject(_ sent: StoreRequest) -> (AskedStore, String)? {
        let last = String(sent.url.split(separator: "/").last ?? "")
        if sent.url.contains("/purchases/subscriptionsv2/tokens/") { return (.google, last) }
        if sent.url.contains("/inApps/v1/subscriptions/") { return (.key, last) }
        let asked = (try? JSONSerialization.jsonObject(with: Data(sent.body ?? []))) as? [String: Any]
        guard let text = asked?["receipt-data"] as? String, let receipt = Data(base64Encoded: text) else { return nil }
        // Each subscription has a receipt of its own.
        return (.receipt, AskedStore.receipt.id(Int(receipt[receipt.startIndex])))
    }

    // MARK: Answers

    /// The name of the second app in the App Store.
    static let secondApp = "com.example.second.magazine"

    /// Whether the subscription is of the second app: those with the numbers from 101 on are.
    static func isOfSecond(_ id: String) -> Bool { (Int(id.suffix(3)) ?? 0) > 100 }

    /// The app of a subscription of the App Store.
    static func app(of id: String) -> String { isOfSecond(id) ? secondApp : V1Body.app }

    private func answer(_ store: AskedStore, _ id: String, isRenewed: Bool, _ link: String?) -> String {
        switch store {
        case .receipt: receiptAnswer(id, isRenewed: isRenewed)
        case .key:
            """
            {"environment":"Production","bundleId":"\(Self.app(of: id))","data":[{"subscriptionGroupIdentifier":"1",\
            "lastTransactions":[{"originalTransactionId":"\(id)","status":1,\
            "signedTransactionInfo":"\(Self.signedTransaction(id, isRenewed: isRenewed, at: clock.now))",\
            "signedRenewalInfo":"\(Self.signedRenewal(id, at: clock.now))"}]}]}
            """
        case .google:
            ScriptedGoogle.subscription(
                order: isRenewed ? "GPA.\(id)..0" : "GPA.\(id)", start: Self.purchase,
                end: isRenewed ? Self.renewedEnd : Self.end,
                more: link.map { #""linkedPurchaseToken":"\#($0)","# } ?? ""
            ).body
        }
    }

    private func receiptAnswer(_ id: String, isRenewed: Bool) -> String {
        func row(_ transaction: String, _ start: Instant, _ end: Instant) -> String {
            """
            {"quantity":"1","product_id":"com.example.magazine.monthly","transaction_id":"\(transaction)",\
            "original_transaction_id":"\(id)","purchase_date_ms":"\(start.milliseconds)",\
            "expires_date_ms":"\(end.milliseconds)"}
            """
        }
        var rows = [row(id, Self.purchase, Self.end)]
        if isRenewed { rows.append(row("9\(id)", Self.end, Self.renewedEnd)) }
        return """
            {"status":0,"environment":"Production","receipt":{"receipt_type":"Production",\
            "bundle_id":"\(Self.app(of: id))","request_date_ms":"\(clock.now.milliseconds)","in_app":[]},\
            "latest_receipt":"\(Self.receipt(id))","latest_receipt_info":[\(rows.joined(separator: ","))],\
            "pending_renewal_info":[{"auto_renew_product_id":"com.example.magazine.monthly",\
            "original_transaction_id":"\(id)","product_id":"com.example.magazine.monthly","auto_renew_status":"1"}]}
            """
    }

    static func receipt(_ id: String) -> String {
        Data(repeating: UInt8(truncatingIfNeeded: Int(id.suffix(3)) ?? 0), count: 96).base64EncodedString()
    }

    static func signedTransaction(_ id: String, isRenewed: Bool = false, at now: Instant) -> String {
        signed(
            """
            {"transactionId":"\(isRenewed ? "9" + id : id)","originalTransactionId":"\(id)","bundleId":"\(app(of: id))",\
            "productId":"com.example.magazine.monthly","subscriptionGroupIdentifier":"1",\
            "purchaseDate":\((isRenewed ? end : purchase).milliseconds),"originalPurchaseDate":\(purchase.milliseconds),\
            "expiresDate":\((isRenewed ? renewedEnd : end).milliseconds),"type":"Auto-Renewable Subscription",\
            "inAppOwnershipType":"PURCHASED","quantity":1,"environment":"Production","signedDate":\(now.milliseconds)}
            """)
    }

    static func signedRenewal(_ id: String, at now: Instant) -> String {
        signed(
            """
            {"originalTransactionId":"\(id)","autoRenewProductId":"com.example.magazine.monthly",\
            "productId":"com.example.magazine.monthly","autoRenewStatus":1,"environment":"Production",\
            "signedDate":\(now.milliseconds)}
            """)
    }

    static func signed(_ payload: String) -> String {
        String(decoding: JWSSigner(.standard).sign(Array(payload.utf8)), as: UTF8.self)
    }
}

/// A server with subscriptions of one store, and processes that ask about them.
struct AskingBundle {
    let store: AskedStore
    let server: TestBundle
    let transport: AskingTransport
    let clock: SetClock
    let apps: [App]
    let googleApps: [GoogleApp]

    /// What asks the store, as in a process of its own.
    struct Process: Sendable {
        let round: @Sendable (Instant) async throws -> PollRound
        let run: @Sendable () async -> Void
    }

    /// What `GET /subscriptions/{id}` says of questions.
    struct Shown: Sendable, Hashable {
        var next: Instant?
        var lastAt: Instant?
        var lastResult: String?
    }

    /// Runs the test with subscriptions that are known, and asked about as far as that is due.
    ///
    /// - Parameters:
    ///   - ofSecond: The number of subscriptions of a second app, if there is one.
    ///   - sharedName: Whether the app has the same name in both stores.
    static func with(
        _ store: AskedStore, subscriptions: Int = 1, ofSecond: Int = 0, sharedName: Bool = false,
        _ test: (AskingBundle) async throws -> Void
    ) async throws {
        let clock = SetClock(AskingTransport.purchase.advanced(by: .seconds(60)))
        let transport = AskingTransport(clock)
        let isAlone = ofSecond == 0
        let apps = try configured(
            store, [sharedName ? ScriptedGoogle.app : V1Body.app] + (isAlone ? [] : [AskingTransport.secondApp]))
        let googleApps = try ([ScriptedGoogle.app] + (isAlone ? [] : [ScriptedGoogle.secondApp])).map {
            try ScriptedGoogle.configured(packageName: $0)
        }
        try await TestBundle.withServer(
            apps: apps, roots: SignedBody.roots, store: transport, googleApps: googleApps, now: { clock.now }
        ) { server in
            let bundle = AskingBundle(
                store: store, server: server, transport: transport, clock: clock, apps: apps, googleApps: googleApps)
            for number in Array(1...subscriptions) + (101..<101 + ofSecond) { try await bundle.buy(number) }
            if store == .google {
                try await bundle.withProcess { process in _ = try await process.round(clock.now) }
            }
            try await server.isFolded()
            try await test(bundle)
        }
    }

    private static func configured(
        _ store: AskedStore, _ names: [String], _ budget: CallBudget = .standard
    ) throws -> [App] {
        try names.map { name in
            App(
                bundleId: name, appAppleId: 1_234_567_890, sharedSecrets: [V1Body.secret], callBudget: budget,
                serverAPIKey: store == .receipt ? nil : try DeliveryBundle.key())
        }
    }

    /// Lets the store's notification of a purchase arrive.
    func buy(_ number: Int) async throws {
        let id = store.id(number)
        switch store {
        case .receipt:
            var body = V1Body(
                type: "INITIAL_BUY", subscription: id, transaction: id, purchase: AskingTransport.purchase.milliseconds,
                expires: AskingTransport.end.milliseconds)
            var unified = body.fields["unified_receipt"] as? [String: Any] ?? [:]
            unified["latest_receipt"] = AskingTransport.receipt(id)
            body.fields["unified_receipt"] = unified
            body.fields["bid"] = AskingTransport.app(of: id)
            try await post(try body.bytes)
        case .key:
            let payload = """
                {"notificationType":"SUBSCRIBED","subtype":"INITIAL_BUY","notificationUUID":"\(UUID())",\
                "version":"2.0","signedDate":\(clock.now.milliseconds),"data":{"appAppleId":1234567890,\
                "bundleId":"\(AskingTransport.app(of: id))","environment":"Production",\
                "signedTransactionInfo":"\(AskingTransport.signedTransaction(id, at: clock.now))",\
                "signedRenewalInfo":"\(AskingTransport.signedRenewal(id, at: clock.now))"}}
                """
            try await post(Array("{\"signedPayload\":\"\(AskingTransport.signed(payload))\"}".utf8))
        case .google: try await push(id)
        }
    }

    private func post(_ body: [UInt8]) async throws {
        let answer = try await server.apple.post(body)
        guard answer.status == 200 else { throw NotAccepted(answer: answer.body) }
    }

    /// Lets a push about a purchase of Google Play arrive.
    func push(_ token: String) async throws {
        let app = AskingTransport.isOfSecond(token) ? ScriptedGoogle.secondApp : ScriptedGoogle.app
        let answer = try await server.push(
            ScriptedGoogle.push(4, token, id: UUID().uuidString, at: clock.now, app: app), at: clock.now)
        guard answer.status == 200 else { throw NotAccepted(answer: answer.body) }
    }

    private struct NotAccepted: Error {
        let answer: String
    }

    func shown(_ id: String? = nil) async throws -> Shown {
        let answer = try await server.backend.get("/subscriptions/\(id ?? store.id(1))")
        let check = answer.json["check"] as? [String: Any] ?? [:]
        func time(_ member: String) -> Instant? {
            ((check[member] as? [String: Any])?["at"] as? String).flatMap { Instant(iso8601: $0) }
        }
        return Shown(
            next: time("next"), lastAt: time("last"),
            lastResult: (check["last"] as? [String: Any])?["result"] as? String)
    }

    /// The number of events that answers became.
    func answersStored() async throws -> Int {
        try await server.sql(
            "select position::text from subledger.event where source in ('apple-receipt', 'apple-api', 'google-api')"
        ).count
    }

    /// The number of statements that the database executes in a time.
    func statements(within time: Duration) async throws -> Int {
        let before = try await statements()
        try await Task.sleep(for: time)
        return try await statements() - before
    }

    private func statements() async throws -> Int {
        let counted = try await server.sql(
            """
            select (xact_commit + xact_rollback)::text
            from pg_stat_database
            where datname = current_database()
            """)
        return counted.first.flatMap { Int($0) } ?? 0
    }

    /// The results of the checks that are recorded, oldest first.
    func results() async throws -> [String] {
        try await server.sql("select result from subledger.store_check order by asked_at, original_transaction_id")
    }

    /// Ends what a process that died leaves behind: its leases, and in time its claims.
    func forgetDeadProcess() async throws {
        try await endLeases()
        clock.advance(by: .seconds(200))
    }

    func endLeases() async throws {
        _ = try await server.sql("update subledger.lease set until = now() returning work")
    }

    /// Runs the test with a process that asks the store.
    ///
    /// - Parameters:
    ///   - other: Instead of the bundle's store.
    ///   - inRealTime: Whether pauses last, so that the process can run by itself.
    ///   - budget: Of the calls that are questions about subscriptions; nil for the usual one.
    func withProcess(
        of other: AskedStore? = nil, inRealTime: Bool = false, budget: CallBudget? = nil,
        _ test: (Process) async throws -> Void
    ) async throws {
        let store = other ?? store
        let logger = server.logs.logger
        let configuration = server.database.with(role: "subledger_poller")
        let pool = PostgresPool(configuration, limit: 4, logger: logger)
        let receiver = PostgresPool(server.database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let appender = Appender(pool: receiver, logger: logger)
        // Pauses pass at once: each sets the clock to its end.
        let (start, origin) = (clock.now, ContinuousClock.now)
        let jumping = StoreClock(
            date: { [clock] in clock.now }, now: { [clock] in origin + start.duration(to: clock.now) },
            sleep: { [clock] instant in
                try Task.checkCancellation()
                clock.pass(to: start.advanced(by: instant - origin))
                await Task.yield()
            })
        let storeClock = inRealTime ? StoreClock(date: { [clock] in clock.now }) : jumping
        let signal = ChangeSignal(
            listener: server.database.with(role: "subledger_reader"), channel: "subledger_event", logger: logger)
        let listening = Task { if inRealTime { await signal.run() } }
        let elector = Elector(configuration)
        let leadership = StreamLeadership(elector, for: store == .google ? .google : .checks)
        let process =
            store == .google
            ? google(pool, appender, leadership, inRealTime ? signal : nil, storeClock, budget)
            : try apple(store, pool, appender, leadership, storeClock, budget)
        async let appending: Void = appender.run()
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(process))
        } catch {
            outcome = .failure(error)
        }
        listening.cancel()
        await listening.value
        await leadership.release()
        await appender.stop()
        await appending
        await pool.close()
        await receiver.close()
        try outcome.get()
    }

    private func apple(
        _ store: AskedStore, _ pool: PostgresPool, _ appender: Appender, _ leadership: StreamLeadership,
        _ clock: StoreClock, _ budget: CallBudget?
    ) throws -> Process {
        let logger = server.logs.logger
        let queue = CheckQueue(pool: pool)
        let apps = try Self.configured(self.store, apps.map(\.bundleId), budget ?? .standard)
        let api = ServerAPIClient(
            transport: transport, clock: clock,
            budget: { endpoint, host in
                let usual = endpoint.budget(host)
                return endpoint == .statuses ? budget ?? usual : usual
            }, random: { 0 }, logger: logger)
        let verifier = NotificationVerifier(
            apps: Apps(apps), signatures: SignatureVerifier(roots: SignedBody.roots))
        let checker = Checker(
            client: ReceiptClient(transport: transport, clock: clock, random: { 0 }, logger: logger),
            api: store == .key ? (api, verifier) : nil, apps: apps, queue: queue, log: LogReader(pool: pool),
            histories: HistoryLog(pool: pool), handIns: HandInLog(pool: pool),
            subscriptions: SubscriptionReader(pool: pool), appender: appender, clock: clock, random: { 0 },
            logger: logger)
        let poller = Poller(
            checker: checker, apps: apps, queue: queue, leadership: leadership, clock: clock, logger: logger)
        return Process(round: { try await poller.round(at: $0) }, run: { await poller.run() })
    }

    private func google(
        _ pool: PostgresPool, _ appender: Appender, _ leadership: StreamLeadership, _ signal: ChangeSignal?,
        _ clock: StoreClock, _ budget: CallBudget?
    ) -> Process {
        let logger = server.logs.logger
        let log = LogReader(pool: pool)
        let poller = PurchasePoller(
            client: GoogleClient(
                transport: transport, clock: clock, budget: { budget ?? $0.budget }, random: { 0 }, logger: logger),
            apps: googleApps, queue: PurchaseQueue(pool: pool), log: log,
            subscriptions: SubscriptionReader(pool: pool), appender: appender,
            links: LinkService(log: log, appender: appender, apps: Set(googleApps.map(\.packageName))),
            leadership: leadership,
            events: signal.map { signal in
                EventWatch(
                    mark: { await signal.markOfAny() }, wait: { await signal.waitForAny(since: $0, until: $1) })
            }, clock: clock, random: { 0 }, logger: logger)
        return Process(round: { try await poller.round(at: $0) }, run: { await poller.run() })
    }
}
