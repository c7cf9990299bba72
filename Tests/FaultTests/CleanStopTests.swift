import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Graceful shutdown of the server")
struct CleanStopTests {
    private static func head(_ length: Int) -> String {
        "POST /apple/notifications HTTP/1.1\r\nHost: x\r\nContent-Length: \(length)\r\n\r\n"
    }

    /// Whether the server has read all bytes sent to its port.
    private static func hasReadAll(_ port: Int) throws -> Bool {
        try KernelConnection.at(port).allSatisfy { $0.unread == 0 }
    }

    @Test("on SIGTERM, incomplete requests get 503 within three seconds and complete ones an answer after commit")
    func slowSenders() async throws {
        let database = try await SharedDatabase.make()
        let server = try database.server("receiver,projector,reader")
        let port = try await server.ports().public
        // A lock on the log makes its commit wait.
        let blocker = try await TestCluster.connect(database.configuration)
        try await blocker.begin(deadline: .now + .seconds(20))
        try await blocker.script(
            "lock table subledger.event in share row exclusive mode", deadline: .now + .seconds(20))
        let slow = try (0..<20).map { _ in try RawConnection(port: port) }
        for connection in slow { connection.write(Self.head(5000) + "{\"notification_type\":") }
        let headless = try RawConnection(port: port)
        headless.write("POST /apple/notif")
        let idle = try RawConnection(port: port)
        // A connection of which nothing was read has no request and is closed without an answer.
        _ = try await eventually("the server has read all requests") { try Self.hasReadAll(port) ? true : nil }
        let whole = try RawConnection(port: port)
        let body = String(decoding: try V1Body(number: 1).bytes, as: UTF8.self)
        whole.write(Self.head(body.utf8.count) + body)
        _ = try await eventually("the commit waits") {
            let waiting = try await database.lines(
                """
                select pid::text
                from pg_stat_activity
                where datname = current_database()
                  and application_name = 'subledger receiver'
                  and wait_event_type = 'Lock'
                """)
            return waiting.isEmpty ? nil : true
        }
        #expect(try await HTTPClient(port: port).get("/health/live").status == 200)

        let start = ContinuousClock.now
        server.signal(SIGTERM)
        for connection in slow {
            var text = ""
            _ = try await eventually("a slow sender is answered") {
                text += connection.read()
                return text.contains("}") ? true : nil
            }
            #expect(text.hasPrefix("HTTP/1.1 503 "))
        }
        let slowEnded = ContinuousClock.now - start
        #expect(server.exitStatus == nil)
        #expect(whole.read().isEmpty)
        try await blocker.rollback(deadline: .now + .seconds(20))
        var answer = ""
        _ = try await eventually("the complete request is answered") {
            answer += whole.read()
            return answer.contains("}") ? true : nil
        }
        try await server.hasEnded()
        let ended = ContinuousClock.now - start

        print("slow senders were answered after \(slowEnded), the server ended after \(ended)")
        #expect(slowEnded < .seconds(3))
        #expect(answer.hasPrefix("HTTP/1.1 200 "))
        #expect(ended < .seconds(6))
        #expect(server.exitStatus == 0)
        #expect(try await database.lines("select count(*)::text from subledger.event") == ["1"])
        #expect(headless.read().isEmpty && idle.read().isEmpty)
        await blocker.close()
    }
}
