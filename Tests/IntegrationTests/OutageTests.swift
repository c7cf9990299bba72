import Foundation
import Postgres
import TestSupport
import Testing

@Suite("An unavailable database is answered 503 and loses nothing")
struct OutageTests {
    @Test("a table locked beyond the deadline is answered 503, and the retry is stored once")
    func lockedTable() async throws {
        try await TestBundle.withServer(patience: .zero) { server in
            let owner = try await TestCluster.connect(server.database)
            try await owner.begin(deadline: .now + .seconds(10))
            try await owner.script(
                "lock table subledger.event in access exclusive mode", deadline: .now + .seconds(10))

            let started = ContinuousClock.now
            let answer = try await server.apple.post(try TestBundle.sample(""))
            let waited = ContinuousClock.now - started

            #expect(answer.status == 503)
            #expect(answer.headers["retry-after"] == "5")
            #expect(
                answer.json["error"] as? String
                    == "the database did not confirm that the notification is stored")
            #expect(waited < .seconds(15))
            try await owner.rollback(deadline: .now + .seconds(10))
            await owner.close()
            let retry = try await eventually("the retry is answered 200") {
                let retry = try await server.apple.post(try TestBundle.sample(""))
                return retry.status == 200 ? retry : nil
            }
            #expect(retry.json["position"] as? Int == 1)
            let count = try await server.sql("select count(*)::text from subledger.event")
            #expect(count == ["1"])
        }
    }

    @Test("a stopped database is answered 503 on both listeners, and 200 once it runs again")
    func stoppedDatabase() async throws {
        let folder = TestFolder.path("outage")
        let logger = LogRecorder().logger
        let server = try await EmbeddedServer.start(folder: folder, logger: logger)
        try await server.createDatabase("outage")
        let database = server.configuration(database: "outage")
        try await TestCluster.migrate(database)
        do {
            try await TestBundle.withServer(database: database, patience: .zero) { bundle in
                #expect(try await bundle.apple.post(try V1Body(number: 1).bytes).status == 200)

                await server.stop()
                for _ in 0..<20 {
                    let answer = try await bundle.apple.post(try V1Body(number: 2).bytes)
                    #expect(answer.status == 503)
                }
                #expect(try await bundle.apple.get("/health").status == 503)
                #expect(try await bundle.backend.get("/health").status == 503)
                #expect(try await bundle.backend.get("/subscriptions/1").status == 503)

                let again = try await EmbeddedServer.start(folder: folder, logger: logger)
                let position = try await eventually("notifications are accepted again") {
                    let answer = try await bundle.apple.post(try V1Body(number: 2).bytes)
                    return answer.status == 200 ? answer.json["position"] as? Int : nil
                }
                #expect(position == 2)
                _ = try await bundle.subscription("/subscriptions/2000000000000002")
                await again.stop()
            }
        } catch {
            await server.stop()
            throw error
        }
        try FileManager.default.removeItem(atPath: folder)
    }

    @Test("the first notifications and reads after a restart of the database are answered 200")
    func restartedDatabase() async throws {
        let folder = TestFolder.path("restart")
        let logger = LogRecorder().logger
        let server = try await EmbeddedServer.start(folder: folder, logger: logger)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await server.createDatabase("restart")
        let database = server.configuration(database: "restart")
        try await TestCluster.migrate(database)
        do {
            try await TestBundle.withServer(database: database, patience: .zero) { bundle in
                #expect(try await bundle.apple.post(try V1Body(number: 1).bytes).status == 200)
                _ = try await bundle.subscription("/subscriptions/2000000000000001")
                await server.stop()
                let again = try await EmbeddedServer.start(folder: folder, logger: logger)

                var statuses: [Int] = []
                for number in 2...4 {
                    statuses.append(try await bundle.apple.post(try V1Body(number: number).bytes).status)
                    statuses.append(try await bundle.backend.get("/subscriptions/2000000000000001").status)
                    statuses.append(try await bundle.apple.get("/health").status)
                }

                #expect(statuses == Array(repeating: 200, count: 9))
                await again.stop()
            }
        } catch {
            await server.stop()
            throw error
        }
    }
}
