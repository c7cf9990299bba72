import Encoding
import Foundation
import Simulation
import Subscriptions
import Synchronization
import TestSupport

/// Customers who flood the servers with junk, and some whose genuine purchases must give access in time all the while.
///
/// Their purchases belong to an app of their own, so that the load's log is as it was sent.
final class HostileCustomers: Sendable {
    static let app = "com.example.hostile"

    private let servers: [StormServer]
    private let client: StormClient
    private let report: StormReport
    /// Whether others fill the queue of notifications meanwhile.
    private let fillsQueue: Bool
    private let signer = JWSSigner(TestCertificates.standard)
    private let state = Mutex(State())

    private struct State {
        var junk: [Int: Int] = [:]
        var waits: [Duration] = []
        var looks = 0
        var failing: [String: Int] = [:]
        /// Conditions that are as health says.
        var known: [String: Int] = [:]
    }

    private enum Limits {
        static let senders = 6
        static let junkPause = Duration.milliseconds(50)
        static let genuinePause = Duration.seconds(1)
        static let accessMax = Duration.seconds(10)
        static let lookPause = Duration.milliseconds(100)
        static let healthPause = Duration.seconds(1)
    }

    init(servers: [StormServer], client: StormClient, report: StormReport, fillsQueue: Bool) {
        self.fillsQueue = fillsQueue
        self.servers = servers
        self.client = client
        self.report = report
    }

    /// Runs until its task is cancelled.
    func run(seed: UInt64) async {
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<Limits.senders { group.addTask { await self.sendJunk(number, seed: seed) } }
            group.addTask { await self.buy() }
            for server in self.servers { group.addTask { await self.watchHealth(of: server) } }
        }
    }

    // MARK: Junk

    private func sendJunk(_ number: Int, seed: UInt64) async {
        var random = SplitMix64(seed: seed, 9, UInt64(number))
        while !Task.isCancelled {
            if let port = servers[number % servers.count].ports?.private {
                let customer = "junk-\(number)-\(Int.random(in: 0..<50, using: &random))"
                let bytes = (0..<3000).map { _ in UInt8.random(in: .min ... .max, using: &random) }
                let noise = Base64.text(Array(bytes.prefix(90)))
                let (path, body): (String, String) =
                    switch Int.random(in: 0..<4, using: &random) {
                    case 0:
                        (
                            "/receipts?app=\(ReceiptStorm.app)",
                            "{\"receipt\":\"\(Base64.text(bytes))\",\"customerId\":\"\(customer)\"}"
                        )
                    case 1:
                        // A copied purchase, with the account that the backend gave its sender.
                        (
                            "/transactions?app=\(Self.app)",
                            handIn(Int.random(in: 0..<20, using: &random), customer, account: UUID().uuidString)
                        )
                    case 2:
                        (
                            "/transactions?app=\(Self.app)",
                            "{\"signedTransaction\":\"a.\(noise).c\",\"customerId\":\"\(customer)\"}"
                        )
                    default:
                        ("/customers/entitlements", "{\"app\":\"\(Self.app)\",\"customerIds\":[\"\(customer)\"]}")
                    }
                let answer = await client.post(Array(body.utf8), to: port, path: path)
                state.withLock { $0.junk[answer?.status ?? 0, default: 0] += 1 }
                if answer?.text.contains(Canary.mark) == true { report.problem("an answer to junk contains a canary") }
                if answer?.status == 500 { report.problem("junk was answered 500: \(answer?.text.prefix(200) ?? "")") }
            }
            try? await Task.sleep(for: Limits.junkPause)
        }
    }

    // MARK: Genuine purchases

    private func account(_ number: Int) -> String { "00000000-0000-4000-8000-\(String(format: "%012d", number + 1))" }

    private func handIn(_ number: Int, _ customer: String, account named: String) -> String {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let id = "9\(String(format: "%015d", number))"
        let text = signer.sign(
            Array(
                """
                {"transactionId":"\(id)","originalTransactionId":"\(id)","bundleId":"\(Self.app)",\
                "productId":"hostile.monthly","purchaseDate":\(now - 60_000),"expiresDate":\(now + 86_400_000),\
                "type":"Auto-Renewable Subscription","environment":"Production","appAccountToken":"\(account(number))",\
                "signedDate":\(now)}
                """.utf8))
        return "{\"signedTransaction\":\"\(String(decoding: text, as: UTF8.self))\",\"customerId\":\"\(customer)\","
            + "\"appAccountToken\":\"\(named)\"}"
    }

    /// Buys once a second, and waits until each purchase gives access.
    private func buy() async {
        var number = 0
        while !Task.isCancelled {
            await buy(number)
            number += 1
            try? await Task.sleep(for: Limits.genuinePause)
        }
    }

    private func buy(_ number: Int) async {
        let customer = "genuine-\(number)"
        let start = ContinuousClock.now
        let body = Array(handIn(number, customer, account: account(number)).utf8)
        var isHandedIn = false
        var last = "nothing"
        while ContinuousClock.now < start + Limits.accessMax {
            let server = servers[number % servers.count]
            guard let port = server.ports?.private else { break }
            if !isHandedIn {
                let answer = await client.post(body, to: port, path: "/transactions?app=\(Self.app)")
                isHandedIn = answer?.status == 200
                last = answer.map { "\($0.status) \($0.text.prefix(300))" } ?? "no answer"
            }
            if isHandedIn {
                let answer = await client.get(
                    "/customers/\(customer)/entitlements?as=link&app=\(Self.app)", from: port)
                last = answer.map { "\($0.status) \($0.text.prefix(300))" } ?? "no answer"
                if answer?.status == 200, answer?.text.contains("\"active\":true") == true {
                    return state.withLock { $0.waits.append(ContinuousClock.now - start) }
                }
            }
            try? await Task.sleep(for: Limits.lookPause)
        }
        if !Task.isCancelled {
            report.problem("genuine purchase \(number) gives no access after \(Limits.accessMax): \(last)")
        }
    }

    // MARK: Health

    /// Nothing is broken, so every condition must be ok.
    private func watchHealth(of server: StormServer) async {
        while !Task.isCancelled {
            if let port = server.ports?.private, let answer = await client.get("/health", from: port) {
                let json = (try? JSONSerialization.jsonObject(with: Data(answer.text.utf8))) as? [String: Any]
                let conditions = json?["conditions"] as? [[String: Any]] ?? []
                state.withLock { state in
                    state.looks += 1
                    for condition in conditions where condition["state"] as? String != "ok" {
                        let name = condition["name"] as? String ?? "?"
                        // The receiver of deliveries does fail from time to time, and the queue does fill.
                        if name == "endpoints" || (name == "notification_queue" && fillsQueue) {
                            state.known[name, default: 0] += 1
                        } else {
                            state.failing["\(name): \(condition["detail"] ?? "")", default: 0] += 1
                        }
                    }
                }
            }
            try? await Task.sleep(for: Limits.healthPause)
        }
    }

    // MARK: Result

    func check() {
        let state = state.withLock { $0 }
        let waits = state.waits.sorted()
        let junk = state.junk.sorted { $0.key < $1.key }
            .map { "\($0.value) x \($0.key == 0 ? "no answer" : String($0.key))" }.joined(separator: ", ")
        report.log("hostile: junk answered \(junk)")
        func place(_ part: Double) -> Duration { waits.isEmpty ? .zero : waits[Int(Double(waits.count - 1) * part)] }
        report.log(
            "hostile: \(waits.count) genuine purchases gave access after \(place(0.5)) (median), \(place(0.99)) (p99), "
                + "\(place(1)) (longest)")
        report.log("hostile: \(state.looks) looks at health")
        for (condition, count) in state.known.sorted(by: { $0.key < $1.key }) {
            report.log("health said \(count) times of \(state.looks) what is so: \(condition)")
        }
        if fillsQueue, state.known["notification_queue"] == nil {
            report.problem("health never said that the queue of notifications fills")
        }
        if waits.isEmpty { report.problem("no genuine purchase gave access") }
        for (condition, count) in state.failing.sorted(by: { $0.key < $1.key }) {
            report.problem("health said \(count) times of \(state.looks) what is not so: \(condition)")
        }
    }
}
