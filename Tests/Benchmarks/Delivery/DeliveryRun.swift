import AsyncHTTPClient
import Encoding
import Foundation
import NIOCore
import Synchronization
import TestSupport

/// The time from a published change to its arrival at an endpoint on this machine, what the deliveries cost the receiver of
/// notifications, and the rate at which changes are delivered again. One process has all roles.
struct DeliveryRun {
    let settings: RunSettings

    private static let rate = 200.0
    /// Endpoints of a replay: with eight attempts in flight each, they have all of the places together.
    private static let endpoints = 8
    private static let inFlight = 64
    /// Pairs of a phase without and one with the endpoint. They alternate, so that a disk that is slow for some seconds
    /// does not decide which is faster.
    private static let pairs = 3

    func measure(_ samples: inout Samples) async throws {
        let database = try await SharedDatabase.make()
        let arrivals = Arrivals()
        let receiver = DeliveryReceiver { request in
            arrivals.note(request)
            return .status(204)
        }
        try await receiver.start()
        var environment = try MeasuredServer.environment(settings.folder)
        environment["SUBLEDGER_ALLOW_PRIVATE_ENDPOINTS"] = "true"
        // In a folder that the server's user may write.
        let keys = TestFolder.path("webhook-keys.json")
        defer { for file in [keys, keys + ".lock"] { try? FileManager.default.removeItem(atPath: file) } }
        environment["SUBLEDGER_WEBHOOK_KEYS"] = keys
        let process = try database.server(
            "receiver,projector,reader,poller", more: environment, logFile: settings.folder.file("server.log"))
        do {
            let ports = try await process.ports()
            let admin = TestSupport.HTTPClient(port: ports.private, token: try await database.token(.admin))
            try await measure(ports.public, admin, receiver, arrivals, &samples)
        } catch {
            process.signal(SIGKILL)
            throw error
        }
        process.signal(SIGTERM)
        try await process.hasEnded()
        try await Self.measureFloor(receiver, arrivals, seconds: settings.seconds, &samples)
        await receiver.kill()
        try await database.drop()
    }

    private func measure(
        _ port: Int, _ admin: TestSupport.HTTPClient, _ receiver: DeliveryReceiver, _ arrivals: Arrivals,
        _ samples: inout Samples
    ) async throws {
        let count = Int(Self.rate) * settings.seconds
        var writer = try RequestFile.Writer(path: settings.folder.file("delivery.requests"))
        let start = Int64(Date().timeIntervalSince1970 * 1000)
        for number in 0..<(1 + 2 * Self.pairs) * count {
            let id = String(2_000_000_000_000_000 + number)
            let body = V1Body(
                type: "INITIAL_BUY", subscription: id, transaction: id, purchase: start, expires: 4_070_908_800_000)
            try writer.append(body.bytes)
        }
        let sender = OpenLoop(requests: try writer.finish(), connections: settings.connections)
        func post(_ phase: Int) throws -> [Double] {
            let answers = try sender.run(
                port: port, rate: Self.rate, seconds: Double(settings.seconds), from: phase * count)
            guard answers.allSatisfy({ $0.status == 200 }) else {
                throw BenchError("a notification was not answered 200")
            }
            return answers.map(\.milliseconds)
        }

        // The first ones open connections and fill caches.
        _ = try post(0)
        let first = try await add(admin, receiver, "/live")
        var (without, with): ([Double], [Double]) = ([], [])
        for pair in 0..<Self.pairs {
            try await Self.turn(first, "disable", admin)
            without += try post(1 + 2 * pair)
            try await Self.turn(first, "enable", admin)
            // What it missed is delivered before, and is not timed.
            try await Self.catchUp(first, admin)
            arrivals.isTimed = true
            with += try post(2 + 2 * pair)
            try await Self.catchUp(first, admin)
            arrivals.isTimed = false
        }
        samples.add("delivery.without.p99", without.percentile(0.99))
        samples.add("delivery.with.p99", with.percentile(0.99))
        let latencies = arrivals.latencies
        samples.add("delivery.p50", latencies.percentile(0.5))
        samples.add("delivery.p99", latencies.percentile(0.99))

        try await replay([first], arrivals, admin, "delivery.one", &samples)
        var others: [String] = []
        for number in 0..<Self.endpoints {
            others.append(try await add(admin, receiver, "/again/\(number)"))
        }
        try await Task.sleep(for: .seconds(2))
        try await replay(others, arrivals, admin, "delivery.all", &samples)
    }

    private static func turn(_ endpoint: String, _ verb: String, _ admin: TestSupport.HTTPClient) async throws {
        let answer = try await admin.post([], to: "/webhooks/\(endpoint)/\(verb)")
        guard answer.status == 200 else { throw BenchError(answer.body) }
        // A round notices it within a second.
        try await Task.sleep(for: .seconds(2))
    }

    /// Waits until the endpoint has had everything for a second.
    private static func catchUp(_ endpoint: String, _ admin: TestSupport.HTTPClient) async throws {
        var (rounds, head) = (0, -1)
        _ = try await eventually(within: .seconds(60), "all changes are delivered") {
            let found = try await admin.get("/webhooks/\(endpoint)").json["endpoint"] as? [String: Any]
            guard let behind = found?["behind"] as? Int, let cursor = found?["number"] as? Int else {
                throw BenchError("unexpected answer about the endpoint")
            }
            rounds = behind == 0 && cursor == head ? rounds + 1 : 0
            head = cursor
            guard rounds < 5 else { return true }
            try await Task.sleep(for: .milliseconds(200))
            return nil
        }
    }

    private func add(
        _ admin: TestSupport.HTTPClient, _ receiver: DeliveryReceiver, _ path: String
    ) async throws -> String {
        let wish = "{\"app\":\"\(V1Body.app)\",\"url\":\"http://127.0.0.1:\(receiver.port)\(path)\"}"
        let added = try await admin.post(Array(wish.utf8), to: "/webhooks")
        guard added.status == 201, let id = (added.json["endpoint"] as? [String: Any])?["id"] as? String
        else { throw BenchError(added.body) }
        return id
    }

    /// Delivers all changes to the endpoints again.
    private func replay(
        _ endpoints: [String], _ arrivals: Arrivals, _ admin: TestSupport.HTTPClient, _ name: String,
        _ samples: inout Samples
    ) async throws {
        arrivals.restart()
        var due = 0
        for id in endpoints {
            let answer = try await admin.post(Array(#"{"after":0}"#.utf8), to: "/webhooks/\(id)/replay")
            guard answer.status == 200 || answer.status == 202, let count = answer.json["messages"] as? Int else {
                throw BenchError(answer.body)
            }
            due += count
        }
        _ = try await eventually(within: .seconds(300), "all changes are delivered again") {
            arrivals.total >= due ? true : nil
        }
        samples.add("\(name).rate", Double(due) / arrivals.seconds)
    }

    /// What the HTTP client does alone, with as many requests in flight, to the same receiver.
    private static func measureFloor(
        _ receiver: DeliveryReceiver, _ arrivals: Arrivals, seconds: Int, _ samples: inout Samples
    ) async throws {
        var configuration = AsyncHTTPClient.HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = inFlight
        let client = AsyncHTTPClient.HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let body = ByteBuffer(repeating: UInt8(ascii: "x"), count: 1500)
        arrivals.restart()
        let end = ContinuousClock.now + .seconds(seconds)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<inFlight {
                group.addTask {
                    while ContinuousClock.now < end {
                        var request = HTTPClientRequest(url: "http://127.0.0.1:\(receiver.port)/floor")
                        request.method = .POST
                        request.headers.add(name: "content-type", value: "application/json")
                        request.body = .bytes(body)
                        let response = try? await client.execute(request, timeout: .seconds(15))
                        _ = try? await response?.body.collect(upTo: 1024)
                    }
                }
            }
        }
        samples.add("delivery.floor.rate", Double(arrivals.total) / arrivals.seconds)
        try await client.shutdown()
    }
}

/// What has arrived since the start.
private final class Arrivals: Sendable {
    private struct State {
        var counts: [String: Int] = [:]
        var total = 0
        var first: ContinuousClock.Instant?
        var last: ContinuousClock.Instant?
        var latencies: [Double] = []
        var isTimed = false
    }

    private let state = Mutex(State())

    func note(_ request: DeliveryReceiver.Request) {
        let now = ContinuousClock.now
        let wall = Date().timeIntervalSince1970 * 1000
        let isTimed = state.withLock { state in
            state.counts[request.path, default: 0] += 1
            state.total += 1
            state.first = state.first ?? now
            state.last = now
            return state.isTimed
        }
        guard isTimed, let published = Self.publishedAt(request.body) else { return }
        state.withLock { $0.latencies.append(wall - Double(published.milliseconds)) }
    }

    private static func publishedAt(_ body: ByteBuffer) -> Instant? {
        let bytes = Data(body.readableBytesView)
        guard let found = bytes.range(of: Data(#""publishedAt":""#.utf8)) else { return nil }
        return Instant(
            iso8601: String(decoding: bytes[found.upperBound...].prefix { $0 != UInt8(ascii: "\"") }, as: UTF8.self))
    }

    func count(_ path: String) -> Int { state.withLock { $0.counts[path] ?? 0 } }

    var total: Int { state.withLock(\.total) }

    /// In milliseconds.
    var latencies: [Double] { state.withLock(\.latencies) }

    var isTimed: Bool {
        get { state.withLock(\.isTimed) }
        set { state.withLock { $0.isTimed = newValue } }
    }

    /// From the first arrival to the last one.
    var seconds: Double {
        state.withLock { state in
            guard let first = state.first, let last = state.last else { return .infinity }
            return max((last - first).inSeconds, 1e-3)
        }
    }

    /// Counts anew, without times.
    func restart() { state.withLock { $0 = State() } }
}
