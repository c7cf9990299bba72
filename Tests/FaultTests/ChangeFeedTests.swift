import Foundation
import TestSupport
import Testing

@Suite("The change feed delivers every change after kills")
struct ChangeFeedTests {
    private static let path = "/changes?app=\(V1Body.app)"
    /// The number of notifications to send; SUBLEDGER_TEST_NOTIFICATIONS sets a larger one.
    private static let notifications =
        TestScale.number("SUBLEDGER_TEST_NOTIFICATIONS", 1000)

    /// A reader that stores its cursor after processing changes, and is killed repeatedly.
    private struct Reader {
        var cursor: String?
        /// Numbers of the received changes, one list for each life of the reader.
        var lives: [[Int]] = [[]]
        /// Kinds of the changes of each subscription, without repeats.
        var kinds: [String: [String]] = [:]
        private var known = 0

        mutating func take(_ event: EventStream.Event) {
            let change = event.json
            guard let number = change["number"] as? Int, let subscription = change["originalTransactionId"] as? String,
                let kind = change["kind"] as? String
            else { return }
            lives[lives.count - 1].append(number)
            guard number > known else { return }
            known = number
            kinds[subscription, default: []].append(kind)
        }
    }

    @Test("every change is published once and read in order while readers, servers and projectors are killed")
    func killedReader() async throws {
        var random = TestSeed.generator()
        let database = try await SharedDatabase.make()
        let writer = try database.server("receiver")
        var projectors = [try database.server("projector"), try database.server("projector")]
        var server = try database.server("reader")
        let apple = HTTPClient(port: try await writer.ports().public)
        let token = try await database.token()
        let sending = Task {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for sender in 0..<8 {
                    group.addTask {
                        for number in stride(from: sender, to: Self.notifications, by: 8) {
                            // Each ends during the test, and none before it is folded.
                            let now = Int64(Date().timeIntervalSince1970 * 1000)
                            let subscription = String(2_000_000_000_000_000 + number)
                            let body = V1Body(
                                type: "INITIAL_BUY", subscription: subscription, transaction: subscription,
                                purchase: now - 60_000,
                                expires: now + 12_000 + Int64(number % 7) * 500)
                            let answer = try await apple.post(try body.bytes)
                            #expect(answer.status == 200)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }

        var reader = Reader()
        var port = try await server.privatePort()
        _ = try await eventually("the feed is available") {
            try await HTTPClient(port: port, token: token).get(Self.path).status == 200 ? true : nil
        }
        let isOver = { () async throws -> Bool in
            let last = reader.lives.joined().max() ?? 0
            let left = try await database.lines(
                """
                select change_head.number::text
                from subledger.change_head
                join subledger.stream_head using (stream_id)
                join subledger.checkpoint using (stream_id)
                where checkpoint.position = stream_head.position
                  and next_at is null
                """)
            return left == [String(last)]
        }
        var deadline = ContinuousClock.now + .seconds(240)
        var isSent = false
        while ContinuousClock.now < deadline {
            let stream = try EventStream(port: port, token: token, path: Self.path, lastEventID: reader.cursor)
            let dies = ContinuousClock.now + .milliseconds(20 + Int64(random.next() % 300))
            var done: [String] = []
            while ContinuousClock.now < dies {
                guard let event = stream.next() else {
                    try await Task.sleep(for: .milliseconds(5))
                    continue
                }
                reader.take(event)
                done.append(event.id)
            }
            // The stored cursor is older than the last processed change when the reader dies.
            if !done.isEmpty { reader.cursor = done[Int(random.next() % UInt64(done.count))] }
            reader.lives.append([])
            if random.next() % 10 == 0 {
                server.signal(SIGKILL)
                try await server.hasEnded()
                server = try database.server("reader")
                port = try await server.privatePort()
            }
            if random.next() % 10 == 0 {
                // Half the time this is the leader of the stream.
                let victim = Int(random.next() % 2)
                projectors[victim].signal(SIGKILL)
                try await projectors[victim].hasEnded()
                projectors[victim] = try database.server("projector")
            }
            if !isSent, try await Self.stored(database) == Self.notifications {
                try await sending.value
                isSent = true
                deadline = .now + .seconds(60)
            }
            if isSent, try await isOver() { break }
        }
        try await sending.value

        let told = try await database.lines("select number::text from subledger.change order by number")
        #expect(told.count == 2 * Self.notifications)
        #expect(reader.kinds.count == Self.notifications)
        #expect(Set(reader.lives.joined()) == Set(told.compactMap { Int($0) }))
        for life in reader.lives {
            #expect(zip(life, life.dropFirst()).allSatisfy { $1 == $0 + 1 }, "a reader skipped a change: \(life)")
        }
        // Changes of each customer are in order: access opens, and the clock closes it.
        #expect(reader.kinds.values.allSatisfy { $0 == ["opened", "closed"] })
        print(
            "\(told.count) changes, \(reader.lives.count) lives of the reader, \(reader.lives.joined().count) received")
        for process in projectors + [writer, server] {
            process.signal(SIGTERM)
            try await process.hasEnded()
        }
    }

    private static func stored(_ database: SharedDatabase) async throws -> Int {
        let lines = try await database.lines("select position::text from subledger.stream_head")
        return lines.first.flatMap { Int($0) } ?? 0
    }

    @Test("a reader that never reads is disconnected, and the server buffers nothing for it")
    func neverReads() async throws {
        let database = try await SharedDatabase.make()
        let server = try database.server("receiver,projector,reader")
        let ports = try await server.ports()
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let body = V1Body(type: "INITIAL_BUY", subscription: "10", purchase: now - 1000, expires: now + 3_600_000)
        _ = try await HTTPClient(port: ports.public, patience: .seconds(60)).post(try body.bytes)
        let client = HTTPClient(port: ports.private, token: try await database.token())
        _ = try await eventually("the first change is published") {
            (try await client.get(Self.path).json["changes"] as? [Any])?.count == 1 ? true : nil
        }
        // Many times the size of the kernel's buffers for a connection.
        try await database.script(
            """
            insert into subledger.change (
              stream_id, number, published_at, kind, original_transaction_id, at, cause, customer_kind, customer_id
            )
            select 1, number, now(), 'customer_changed', '10', now(), 'rebuild', 'link', 'u-1'
            from generate_series(2, 60000) as number;
            update subledger.change_head
            set number = 60000
            """)
        let before = try ProcessMemory.resident(server.pid)
        let stream = try EventStream(
            port: ports.private, token: try #require(client.token), path: Self.path + "&limit=1000",
            receiveBytesMax: 64 << 10)
        let isConnected = { try KernelConnection.at(ports.private).contains { $0.unsent > 0 } }
        _ = try await eventually("the stream is connected") { try isConnected() ? true : nil }
        var most = before
        let start = ContinuousClock.now
        _ = try await eventually(within: .seconds(60), "the reader is disconnected") {
            most = max(most, try ProcessMemory.resident(server.pid))
            return try isConnected() ? nil : true
        }
        print("dropped after \(ContinuousClock.now - start), memory grew by \((most - before) / 1000) kB")
        #expect(most - before < 40_000_000)
        _ = stream
        server.signal(SIGTERM)
        try await server.hasEnded()
    }
}
