import Foundation
import NIOSSL
import Outbound
import Synchronization
import TestSupport
import Testing

@Suite("Endpoints that are many, away for long or not who they say they are")
struct OutboundLoadTests {
    enum Presented: String, CaseIterable, CustomTestStringConvertible {
        case right
        case unknownIssuer = "unknown issuer"
        case otherName = "another name"
        case expired

        var testDescription: String { rawValue }

        func make() throws -> ServerCertificate {
            switch self {
            case .right, .unknownIssuer: try ServerCertificate(host: OutboundLoadTests.host)
            case .otherName: try ServerCertificate(host: "other.invalid")
            case .expired:
                try ServerCertificate(host: OutboundLoadTests.host, age: .seconds(7200), life: .seconds(3600))
            }
        }
    }

    private static let host = "receiver.invalid"

    @Test("a receiver with a wrong certificate gets nothing, and the attempt says why", arguments: Presented.allCases)
    func certificate(_ presented: Presented) async throws {
        let certificate = try presented.make()
        let trusted = try NIOSSLCertificate(
            bytes: Array((presented == .unknownIssuer ? ServerCertificate() : certificate).certificatePEM.utf8),
            format: .pem)
        try await ScriptedReceiver.with(certificate: certificate) { receiver in
            try await OutboundBundle.with(endpoint: false) { bundle in
                try await bundle.add(url: "https://\(Self.host):\(receiver.port)/hook")
                try await bundle.publish(["a"])
                let resolver = HostResolver { _ in [NetworkAddress("127.0.0.1")].compactMap(\.self) }
                try await bundle.delivering(resolver: resolver, trustRoots: .certificates([trusted])) { _ in
                    let attempts = try await bundle.attempted(1)

                    #expect(attempts.map(\.result) == [presented == .right ? "success" : "certificate"])
                    #expect(receiver.messages.count == (presented == .right ? 1 : 0))
                    #expect(try await bundle.status()?.waiting == (presented == .right ? 0 : 1))
                }
            }
        }
    }

    /// A third of them answers 500, a third never answers, the others do as they should. SUBLEDGER_TEST_ENDPOINTS sets
    /// another number, up to 999.
    @Test(
        "many endpoints of which most fail use few statements and little memory, and another one is as quick as alone")
    func many() async throws {
        let count = TestScale.number("SUBLEDGER_TEST_ENDPOINTS", 30)
        let (changes, rounds) = (20, 4)
        try await OutboundBundle.with(endpoint: false) { bundle in
            let paths = ["/down", "/hang", "/up"]
            for number in 0..<count {
                try await bundle.add("end_" + String(format: "%016d", number), path: paths[number % 3])
            }
            let arrived = Mutex<[String: Int]>([:])
            bundle.receiver.before { message in
                arrived.withLock { $0[message.path, default: 0] += 1 }
                if message.path == "/hang" { try? await Task.sleep(for: .seconds(60)) }
            }
            bundle.receiver.answer(path: "/down", .status(500))
            let memory = try ProcessMemory.resident(getpid())
            try await bundle.publish((1...changes).map { "line-\($0)" })
            try await bundle.delivering(timeout: .seconds(3), isPaced: true) { _ in
                _ = try await eventually(within: .seconds(300), "the others have what they should") {
                    arrived.withLock { $0["/up"] ?? 0 } >= count / 3 * changes ? true : nil
                }
                let start = ContinuousClock.now
                try await bundle.add(path: "/quick")
                try await bundle.delivered(within: .seconds(120))
                print("\(count) endpoints, another one got \(changes) changes after \(ContinuousClock.now - start)")
                let grown = try ProcessMemory.resident(getpid()) - memory
                print("\(count) endpoints, memory grew by \(grown >> 20) MB")
                #expect(grown < 96 << 20 + count << 18)

                let before = try await Self.transactions(bundle)
                try await Task.sleep(for: .seconds(rounds))
                let perSecond = (try await Self.transactions(bundle) - before) / rounds
                print("\(count) endpoints, \(perSecond) transactions a second")
                // Each looks for more every five seconds, and what has failed is recorded now and then. An endpoint that asks
                // every second shows with hundreds of them.
                #expect(perSecond < 60 + count / 2)
            }
            #expect(arrived.withLock { $0["/quick"] } == changes)
        }
    }

    @Test("endpoints that are away together keep no more than they may, and get everything once they are back")
    func shared() async throws {
        let (count, changes, heldMax) = (8, 600, 400)
        let isUp = Mutex(false)
        let arrived = Mutex<[String: [Int]]>([:])
        let receiver = DeliveryReceiver { request in
            guard isUp.withLock(\.self) else { return .status(500) }
            arrived.withLock { $0[request.path, default: []].append(request.number) }
            return .status(200)
        }
        try await receiver.start()
        try await OutboundBundle.with(endpoint: false) { bundle in
            let ids = (0..<count).map { "end_" + String(format: "%016d", $0) }
            for id in ids { try await bundle.add(id, url: "http://127.0.0.1:\(receiver.port)/\(id)") }
            // Of few subscriptions, so that each failure records what follows it.
            try await bundle.publish(count: changes, lines: 3)
            try await bundle.delivering(heldMax: heldMax) { _ in
                for id in ids {
                    _ = try await eventually(within: .seconds(60), "each line of \(id) has failed") {
                        try await bundle.status(id).map { $0.waiting >= heldMax / count } == true ? true : nil
                    }
                }
                let waiting = try await bundle.values("select count(*)::text from subledger.endpoint_delivery")
                // Each may read one small page more than its share.
                #expect(Int(waiting[0]) ?? .max <= heldMax + count * 16, "\(waiting)")
                isUp.withLock { $0 = true }
                bundle.clock.advance(by: .seconds(86_400))
                for id in ids { try await bundle.delivered(id, within: .seconds(120)) }
            }
            for id in ids {
                let numbers = arrived.withLock { $0["/\(id)"] ?? [] }
                #expect(Set(numbers) == Set(1...changes), "\(id)")
                for line in 0..<3 {
                    let own = numbers.filter { $0 % 3 == line }
                    #expect(own == own.sorted(), "\(id)")
                }
            }
        }
        await receiver.kill()
    }

    private static func transactions(_ bundle: OutboundBundle) async throws -> Int {
        let found = try await bundle.values(
            "select (xact_commit + xact_rollback)::text from pg_stat_database where datname = current_database()")
        return found.first.flatMap { Int($0) } ?? 0
    }

    /// SUBLEDGER_TEST_WAITING sets another number of changes.
    @Test("an endpoint that was away for a week gets everything that it missed, in order, and memory stays bounded")
    func away() async throws {
        let count = TestScale.number("SUBLEDGER_TEST_WAITING", 3000)
        let subscriptions = 700
        struct Arrived {
            var seen: [Bool]
            var count = 0
            var last: [Int: Int] = [:]
            var isInOrder = true
            var isUp = false
        }
        let arrived = Mutex(Arrived(seen: Array(repeating: false, count: count + 1)))
        let receiver = DeliveryReceiver { request in
            arrived.withLock { arrived in
                guard arrived.isUp else { return .status(503) }
                let number = request.number
                guard arrived.seen.indices.contains(number), !arrived.seen[number] else { return .status(200) }
                arrived.seen[number] = true
                arrived.count += 1
                let line = number % subscriptions
                if let last = arrived.last[line], last > number { arrived.isInOrder = false }
                arrived.last[line] = number
                return .status(200)
            }
        }
        try await receiver.start()
        try await OutboundBundle.with(endpoint: false) { bundle in
            try await bundle.add(url: "http://127.0.0.1:\(receiver.port)/hook")
            try await bundle.publish(count: count / 2, lines: subscriptions)
            try await bundle.delivering { _ in
                let first = try await bundle.attempted(3)
                #expect(Set(first.map(\.status)) == [503])
                bundle.clock.advance(by: .seconds(5 * 86_400 + 60))
                _ = try await eventually("the endpoint is disabled") {
                    try await bundle.status()?.endpoint.state.isActive == false ? true : nil
                }
                guard case .disabled(.failing, _) = try await bundle.status()?.endpoint.state else {
                    Issue.record("the endpoint is disabled for another reason")
                    return
                }
                // Meanwhile, changes go on.
                bundle.clock.advance(by: .seconds(2 * 86_400))
                try await bundle.publish(count: count - count / 2, lines: subscriptions)
                let memory = try ProcessMemory.resident(getpid())
                var most = memory
                arrived.withLock { $0.isUp = true }
                let start = ContinuousClock.now
                #expect(try await bundle.store.enable(OutboundBundle.id))
                _ = try await eventually(within: .seconds(3000), "everything has arrived") {
                    most = max(most, try ProcessMemory.resident(getpid()))
                    return arrived.withLock { $0.count } == count ? true : nil
                }
                let time = ContinuousClock.now - start
                print("\(count) changes after \(time), memory grew by \((most - memory) >> 20) MB")
                #expect(most - memory < 128 << 20)
                try await bundle.delivered()
                #expect(arrived.withLock { $0.isInOrder })
                #expect(try await bundle.status()?.exhausted == 0)
            }
        }
        await receiver.kill()
    }
}
