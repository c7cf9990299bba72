import Encoding
import EventLog
import Foundation
import Outbound
import StandardWebhooks
import Synchronization
import TestSupport
import Testing

@Suite("Changes are delivered to endpoints, in order for each subscription")
struct OutboundDeliveryTests {
    @Test("each change arrives once, signed, with its customer, and the cursor follows")
    func delivered() async throws {
        try await OutboundBundle.with { bundle in
            try await bundle.publish(["a", "b", "a", "c", "a"])
            try await bundle.delivering { _ in
                try await bundle.delivered()
                try await bundle.publish(["d"])
                try await bundle.delivered()
            }

            #expect(bundle.receiver.numbers.sorted() == [1, 2, 3, 4, 5, 6])
            let ofA = bundle.receiver.messages.filter { $0.line == "a" }.map(\.number)
            #expect(ofA == [1, 3, 5])
            #expect(bundle.receiver.inFlightMost == 1)
            let message = try #require(bundle.receiver.messages.first { $0.number == 1 })
            let keys = try bundle.keys.read().published(at: bundle.clock.now).map { try VerificationKey($0) }
            try WebhookVerifier(keys: keys).verify(
                Data(message.body), now: Date(timeIntervalSince1970: 1_573_200_840)
            ) { message.headers[$0] }
            let json = message.json
            #expect(json["specversion"] as? String == "1.0")
            #expect(json["id"] as? String == message.id)
            #expect(json["type"] as? String == "subledger.subscription.extended.v1")
            #expect(json["source"] as? String == "/apps/com.example.magazine/production")
            #expect(json["time"] as? String == "2019-11-08T08:14:00.000Z")
            let data = try #require(json["data"] as? [String: Any])
            #expect(data["asOf"] as? String == "2019-11-08T08:14:00.000Z")
            #expect(data["customer"] is [String: Any])
            #expect(data["reason"] as? String == "Transaction 7 was paid for.")
            #expect(message.id.hasPrefix("chg_1_1_"))
            #expect(message.id.hasSuffix("_\(OutboundBundle.id)"))
            #expect(Set(bundle.receiver.messages.map(\.id)).count == 6)
            let attempts = try await bundle.attempts()
            #expect(attempts.map(\.result) == Array(repeating: "success", count: 6))
            #expect(bundle.logs.text.contains("whs") == false)
        }
    }

    @Test("an endpoint gets the kinds that it asks for")
    func kinds() async throws {
        try await OutboundBundle.with(kinds: ["opened"]) { bundle in
            try await bundle.publish(["a", "b"], kind: "opened")
            try await bundle.publish(["a", "b"], kind: "closed")
            try await bundle.publish(["a"], kind: "opened")
            try await bundle.delivering { _ in try await bundle.delivered() }

            #expect(bundle.receiver.numbers.sorted() == [1, 2, 5])
        }
    }

    @Test("after a failure the subscription waits, others go on, and the message comes again with its id")
    func failure() async throws {
        try await OutboundBundle.with { bundle in
            bundle.receiver.answer("a", .status(500), .status(404))
            try await bundle.publish(["a", "b", "a", "b"])
            try await bundle.delivering { _ in
                _ = try await bundle.attempted(3)
                #expect(bundle.receiver.numbers.sorted() == [1, 2, 4])
                bundle.clock.advance(by: .seconds(6))
                _ = try await bundle.attempted(4)
                let waiting = try await bundle.status()
                #expect(waiting?.waiting == 2)
                #expect(waiting?.number == 4)
                bundle.clock.advance(by: .seconds(290))
                try await Task.sleep(for: .milliseconds(50))
                #expect(bundle.receiver.messages.count == 4)
                bundle.clock.advance(by: .seconds(11))
                try await bundle.delivered()
            }

            let ofA = bundle.receiver.messages.filter { $0.line == "a" }
            #expect(ofA.map(\.number) == [1, 1, 1, 3])
            #expect(Set(ofA.prefix(3).map(\.id)).count == 1)
            let timestamps = ofA.map { $0.headers[WebhookHeaders.timestampName] ?? "" }
            #expect(timestamps[0] < timestamps[1])
            let attempts = try await bundle.attempts()
            #expect(attempts.compactMap(\.status).sorted() == [200, 200, 200, 200, 404, 500])
        }
    }

    @Test("a redirect is a failure and is not followed")
    func redirect() async throws {
        try await OutboundBundle.with { bundle in
            let elsewhere = "http://127.0.0.1:\(bundle.receiver.port)/elsewhere"
            bundle.receiver.answer("a", .status(301, [("location", elsewhere)]))
            try await bundle.publish(["a"])
            try await bundle.delivering { _ in
                let attempts = try await bundle.attempted(1)
                #expect(attempts.map(\.result) == ["redirect"])
                bundle.clock.advance(by: .seconds(6))
                try await bundle.delivered()
            }

            #expect(bundle.receiver.messages.map(\.path) == ["/hook", "/hook"])
        }
    }

    @Test("endpoints that answer slowly, more than have places for all their attempts, do not hold up another one")
    func slow() async throws {
        try await OutboundBundle.with(endpoint: false) { bundle in
            bundle.receiver.before { message in
                if message.path == "/slow" { try? await Task.sleep(for: .seconds(30)) }
            }
            for number in 1...9 { try await bundle.add("end_000000000000000\(number)", path: "/slow") }
            try await bundle.publish((1...20).map { "line-\($0)" })
            try await bundle.delivering(timeout: .seconds(40)) { _ in
                _ = try await eventually(within: .seconds(20), "the slow endpoints use all places") {
                    bundle.receiver.messages.count >= 64 ? true : nil
                }
                let start = ContinuousClock.now
                try await bundle.add(path: "/quick")
                try await bundle.delivered()
                #expect(ContinuousClock.now - start < .seconds(15))
            }
            #expect(bundle.receiver.messages.filter { $0.path == "/quick" }.count == 20)
        }
    }

    @Test("410 disables the endpoint; once enabled it continues, and has lost nothing")
    func gone() async throws {
        try await OutboundBundle.with { bundle in
            bundle.receiver.answer("a", .status(410))
            try await bundle.publish(["a", "a"])
            try await bundle.delivering { delivery in
                _ = try await eventually(within: .seconds(60), "the endpoint is disabled") {
                    try await bundle.status()?.endpoint.state.isActive == false ? true : nil
                }
                try await bundle.publish(["b", "a"])
                _ = try await eventually(within: .seconds(60), "the figures say so") {
                    delivery.figures.disabled == 1 ? true : nil
                }
                #expect(bundle.receiver.numbers == [1])

                #expect(try await bundle.store.enable(OutboundBundle.id))
                try await bundle.delivered()
            }

            #expect(bundle.receiver.messages.filter { $0.line == "a" }.map(\.number) == [1, 1, 2, 4])
            #expect(bundle.receiver.numbers.filter { $0 == 3 }.count == 1)
            #expect(bundle.logs.text.contains("endpoint disabled"))
        }
    }

    @Test("429 with Retry-After holds the whole endpoint; without it, only the subscription waits")
    func tooMany() async throws {
        try await OutboundBundle.with { bundle in
            bundle.receiver.answer("a", .status(429, [("retry-after", "120")]))
            try await bundle.publish(["a"])
            try await bundle.delivering { _ in
                _ = try await bundle.attempted(1)
                try await bundle.publish(["b"])
                bundle.clock.advance(by: .seconds(100))
                try await Task.sleep(for: .milliseconds(100))
                #expect(bundle.receiver.numbers == [1])
                bundle.clock.advance(by: .seconds(21))
                try await bundle.delivered()
                #expect(bundle.receiver.numbers.sorted() == [1, 1, 2])

                bundle.receiver.answer("c", .status(429))
                try await bundle.publish(["c", "d"])
                _ = try await bundle.attempted(5)
                #expect(bundle.receiver.numbers.suffix(2).sorted() == [3, 4])
                bundle.clock.advance(by: .seconds(6))
                try await bundle.delivered()
            }
        }
    }

    @Test("a receiver that hangs or resets fails; a long answer counts by its status, and is not read")
    func misbehaviour() async throws {
        try await OutboundBundle.with { bundle in
            bundle.receiver.answer("a", .hang)
            bundle.receiver.answer("b", .reset)
            bundle.receiver.answer("c", .large(10 << 20))
            try await bundle.publish(["a", "b", "c", "d"])
            try await bundle.delivering(timeout: .milliseconds(1500)) { _ in
                let attempts = try await bundle.attempted(4)
                let results = Dictionary(uniqueKeysWithValues: attempts.map { ($0.number, $0.result) })
                #expect(results == [1: "timeout", 2: "unreachable", 3: "success", 4: "success"])
                bundle.clock.advance(by: .seconds(6))
                try await bundle.delivered()
            }

            #expect(bundle.receiver.written < 10 << 20)
        }
    }

    @Test("after ten attempts a message is kept for replay, and its subscription goes on")
    func exhausted() async throws {
        try await OutboundBundle.with { bundle in
            bundle.receiver.answer("a", Array(repeating: .status(500), count: 10))
            try await bundle.publish(["a", "a"])
            try await bundle.delivering { _ in
                for count in 1...9 {
                    _ = try await bundle.attempted(count)
                    bundle.clock.advance(by: RetryPlan.standard.pauses[count])
                }
                _ = try await eventually(within: .seconds(60), "the line goes on") {
                    let status = try await bundle.status()
                    return status?.exhausted == 1 && status?.waiting == 0 ? true : nil
                }
                #expect(bundle.receiver.numbers == Array(repeating: 1, count: 10) + [2])

                let count = try await bundle.store.replayExhausted(OutboundBundle.id, since: bundle.clock.now)
                #expect(count == 1)
                try await bundle.delivered()
                #expect(bundle.receiver.numbers.last == 1)
                #expect(try await bundle.status()?.exhausted == 0)
            }
            #expect(Set(bundle.receiver.messages.filter { $0.number == 1 }.map(\.id)).count == 1)
        }
    }

    @Test("one message, or all from a place, are delivered again on request")
    func replay() async throws {
        try await OutboundBundle.with { bundle in
            try await bundle.publish(["a", "b", "a"])
            try await bundle.delivering { _ in
                try await bundle.delivered()
                #expect(try await bundle.store.replay(OutboundBundle.id, number: 2))
                try await bundle.delivered()
                #expect(bundle.receiver.numbers.suffix(1) == [2])
                #expect(try await bundle.store.replay(OutboundBundle.id, number: 4) == false)
                #expect(try await bundle.store.replay("end_0000000000000000", number: 1) == false)

                #expect(try await bundle.store.replay(OutboundBundle.id, after: 1))
                try await bundle.delivered()
                #expect(bundle.receiver.numbers.suffix(2).sorted() == [2, 3])
            }
            #expect(Set(bundle.receiver.messages.map(\.id)).count == 3)
        }
    }

    @Test("an endpoint without a success in five days is disabled, and keeps its cursor")
    func failing() async throws {
        try await OutboundBundle.with { bundle in
            bundle.receiver.answer(usually: .status(500))
            try await bundle.publish(["a"])
            try await bundle.delivering { _ in
                _ = try await bundle.attempted(1)
                bundle.clock.advance(by: .seconds(5 * 86_400 - 60))
                _ = try await bundle.attempted(2)
                #expect(try await bundle.status()?.endpoint.state.isActive == true)
                bundle.clock.advance(by: .seconds(361))
                _ = try await eventually(within: .seconds(60), "the endpoint is disabled") {
                    try await bundle.status()?.endpoint.state.isActive == false ? true : nil
                }
                bundle.receiver.answer(usually: .status(200))
                #expect(try await bundle.store.enable(OutboundBundle.id))
                try await bundle.delivered()
            }
        }
    }

    /// What an operator changes makes the record fail, as a kill between sending and recording does.
    @Test("what was sent and not recorded comes again, with the same id, and before what follows it")
    func killed() async throws {
        try await OutboundBundle.with { bundle in
            let isFirst = Mutex(true)
            let store = bundle.store
            bundle.receiver.before { message in
                guard message.number == 2 else { return }
                let wasFirst = isFirst.withLock { first in
                    defer { first = false }
                    return first
                }
                guard wasFirst else { return }
                _ = try? await store.replay(OutboundBundle.id, after: 1)
            }
            try await bundle.publish(["a", "a", "a"])
            try await bundle.delivering { _ in
                try await bundle.delivered()
                _ = try await eventually(within: .seconds(60), "the last one arrives") {
                    bundle.receiver.numbers.last == 3 ? true : nil
                }
            }

            var seen: Set<Int> = []
            #expect(bundle.receiver.numbers.filter { seen.insert($0).inserted } == [1, 2, 3])
            #expect(bundle.receiver.numbers.filter { $0 == 2 }.count >= 2)
            #expect(Set(bundle.receiver.messages.filter { $0.number == 2 }.map(\.id)).count == 1)
        }
    }

    /// The database is brought back to what it was after the first change, with the endpoint's cursor of then.
    @Test("after a restored backup, what has a number again is delivered, with an id of its own")
    func restored() async throws {
        try await OutboundBundle.with { bundle in
            try await bundle.publish(["a"])
            try await bundle.delivering { _ in try await bundle.delivered() }
            try await bundle.publish(["a", "b"])
            try await bundle.delivering { _ in try await bundle.delivered() }
            try await bundle.script(
                """
                begin;
                alter table subledger.change disable trigger all;
                delete from subledger.change where number > 1;
                alter table subledger.change enable trigger all;
                update subledger.change_head set number = 1;
                update subledger.endpoint_cursor set number = 1;
                delete from subledger.endpoint_attempt where number > 1;
                commit
                """)
            try await bundle.publish(["a", "c"], kind: "closed")
            try await bundle.delivering { _ in try await bundle.delivered() }

            #expect(bundle.receiver.messages.map(\.number).sorted() == [1, 2, 2, 3, 3])
            #expect(bundle.receiver.messages.map(\.line).sorted() == ["a", "a", "a", "b", "c"])
            #expect(Set(bundle.receiver.messages.map(\.id)).count == 5)
        }
    }

    @Test("of two processes one delivers, and the other takes over")
    func leaders() async throws {
        try await OutboundBundle.with { bundle in
            let subscriptions = (0..<40).map { "s\($0 % 5)" }
            try await bundle.publish(subscriptions)
            try await bundle.delivering { _ in
                try await bundle.delivering { _ in
                    try await bundle.delivered()
                }
                try await bundle.publish(subscriptions)
                try await bundle.delivered()
            }

            #expect(bundle.receiver.numbers.sorted() == Array(1...80))
            #expect(bundle.receiver.inFlightMost == 1)
        }
    }

    @Test("a name that leads to an address that is not public is refused, at each attempt")
    func addresses() async throws {
        try await OutboundBundle.with(endpoint: false) { bundle in
            try await bundle.add(url: "https://receiver.example:\(bundle.receiver.port)/")
            try await bundle.publish(["a"])
            let addresses = Mutex(["203.0.113.9"])
            let resolver = HostResolver { _ in
                addresses.withLock { ["1.1.1.1"] + $0 }.compactMap(NetworkAddress.init)
            }
            try await bundle.delivering(allowsPrivate: false, resolver: resolver) { _ in
                let attempts = try await bundle.attempted(1)
                #expect(attempts.map(\.result) == ["address_refused"])
                addresses.withLock { $0 = ["127.0.0.1"] }
                bundle.clock.advance(by: .seconds(6))
                let again = try await bundle.attempted(2)
                #expect(again.map(\.result) == ["address_refused", "address_refused"])
            }
            #expect(bundle.receiver.messages.isEmpty)
        }
    }

    @Test("the connection goes to the address that was looked up")
    func pinned() async throws {
        try await OutboundBundle.with(endpoint: false) { bundle in
            // No resolver knows this name.
            try await bundle.add(url: "http://Receiver.invalid:\(bundle.receiver.port)/hook")
            try await bundle.publish(["a"])
            let resolver = HostResolver { name in
                name == "receiver.invalid" ? [NetworkAddress("127.0.0.1")].compactMap(\.self) : []
            }
            try await bundle.delivering(resolver: resolver) { _ in try await bundle.delivered() }

            #expect(bundle.receiver.messages.first?.headers["host"] == "receiver.invalid:\(bundle.receiver.port)")
        }
    }

    @Test("an endpoint without a key fails, and delivers once it has one; after a rotation both keys sign")
    func keys() async throws {
        try await OutboundBundle.with(endpoint: false) { bundle in
            try await bundle.add(signature: .v1)
            try await bundle.publish(["a"])
            try await bundle.delivering { _ in
                let attempts = try await bundle.attempted(1)
                #expect(attempts.map(\.result) == ["no_key"])
                let old = try bundle.keys.change { $0.rotate(OutboundBundle.id, at: bundle.clock.now) }
                bundle.clock.advance(by: .seconds(6))
                try await bundle.delivered()
                let new = try bundle.keys.change { $0.rotate(OutboundBundle.id, at: bundle.clock.now) }
                try await bundle.publish(["a"])
                try await bundle.delivered()
                bundle.clock.advance(by: .seconds(86_401))
                try await bundle.publish(["a"])
                try await bundle.delivered()

                let messages = bundle.receiver.messages
                let counts = messages.map { $0.headers[WebhookHeaders.signatureName]?.split(separator: " ").count }
                #expect(counts == [1, 2, 1])
                for (message, keys) in zip(messages, [[old], [old, new], [new]]) {
                    let seconds = try #require(message.headers[WebhookHeaders.timestampName].flatMap(Double.init))
                    for key in keys {
                        try WebhookVerifier(keys: [try VerificationKey(key)]).verify(
                            Data(message.body), now: Date(timeIntervalSince1970: seconds)
                        ) { message.headers[$0] }
                    }
                }
            }
        }
    }

    @Test("attempts are removed after 30 days")
    func pruned() async throws {
        try await OutboundBundle.with { bundle in
            try await bundle.publish(["a"])
            try await bundle.delivering { _ in
                try await bundle.delivered()
                bundle.clock.advance(by: .seconds(30 * 86_400 + 3601))
                _ = try await eventually(within: .seconds(60), "the attempt is removed") {
                    try await bundle.attempts().isEmpty ? true : nil
                }
            }
        }
    }
}
