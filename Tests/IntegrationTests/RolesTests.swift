import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Separate processes by serve --roles")
struct RolesTests {
    @Test(
        "an unknown role is reported in one line with status 78",
        arguments: ["", "receiver,", "writer", "receiver,Reader", "receiver projector"])
    func unknown(_ names: String) throws {
        let byFlag = try ServerProcess.run(["serve", "--roles", names, "--data-folder", "/tmp/subledger-no-roles"])
        let byVariable = try ServerProcess.run(
            ["serve", "--data-folder", "/tmp/subledger-no-roles"], environment: ["SUBLEDGER_ROLES": names])

        for result in [byFlag, byVariable] {
            #expect(result.status == 78)
            #expect(result.error.hasSuffix(": expected receiver, projector, reader or poller\n"), "\(result.error)")
            #expect(result.error.split(separator: "\n").count == 1)
        }
    }

    @Test("a notification is stored, folded and read by three processes with one role each")
    func apart() async throws {
        let database = try await SharedDatabase.make()
        let receiver = try database.server("receiver")
        let projector = try database.server("projector")
        let reader = try database.server("reader")
        let backend = HTTPClient(port: try await reader.privatePort(), token: try await database.token(.link))

        let answer = try await HTTPClient(port: try await receiver.ports().public).post(try V1Body(number: 1).bytes)
        #expect(answer.status == 200)
        _ = try await eventually("the subscription is readable") {
            try await backend.get("/subscriptions/2000000000000001").status == 200 ? true : nil
        }

        // A reader stores links itself, although it receives no notifications.
        let linked = try await backend.put(
            #"{"links":[{"originalTransactionId":"2000000000000001"}]}"#, to: "/customers/u-1/links?app=\(V1Body.app)")
        #expect(linked.status == 200, "\(linked.body)")
        // It verifies signed transactions itself as well.
        let rejected = try await backend.post(
            Array("{\"signedTransaction\":\"\(DeviceText.transaction(app: V1Body.app))\"}".utf8),
            to: "/transactions?app=\(V1Body.app)")
        #expect(rejected.status == 422, "\(rejected.body)")
        #expect(
            rejected.json["detail"] as? String
                == "signedTransaction has certificates that do not lead to a trusted root")
        _ = try await eventually("the customer is readable") {
            try await backend.get("/customers/u-1/entitlements").status == 200 ? true : nil
        }

        for (server, own) in [
            (receiver, "subledger_notifications_total"), (projector, "subledger_projector_lag_events"),
        ] {
            let client = HTTPClient(port: try await server.privatePort())
            #expect(try await client.get("/health").status == 200)
            #expect(try await client.get("/metrics").body.contains(own))
            #expect(try await client.get("/subscriptions/2000000000000001").status == 404)
            #expect(try await client.get("/events?app=\(V1Body.app)").status == 404)
        }
        #expect(try await backend.get("/health").status == 200)
        #expect(!projector.log.contains("public listener"))
        #expect(!reader.log.contains("public listener"))
        #expect(
            try await database.lines(
                """
                select distinct application_name
                from pg_stat_activity
                where datname = current_database()
                  and application_name like 'subledger %'
                order by 1
                """) == ["subledger authenticator", "subledger projector", "subledger reader", "subledger receiver"])
        for server in [receiver, projector, reader] { server.signal(SIGTERM) }
        for server in [receiver, projector, reader] {
            try await server.hasEnded()
            #expect(server.exitStatus == 0)
        }
    }

    @Test("a process needs only the database roles of its parts")
    func grants() async throws {
        let database = try await SharedDatabase.make()
        let user = "roles_" + UUID().uuidString.lowercased().prefix(8)
        try await database.script(
            """
            create role \(user) login password 'test';
            grant subledger_owner, subledger_reader, subledger_products, subledger_authenticator to \(user);
            """)
        let reader = try database.server("reader", user: String(user), more: ["PGPASSWORD": "test"])
        let client = HTTPClient(port: try await reader.privatePort(), token: try await database.token(.link))
        #expect(try await client.get("/health").status == 200)
        let refused = try await client.put(
            #"{"links":[]}"#, to: "/customers/u-1/links?app=\(V1Body.app)")
        #expect(refused.status == 501)
        #expect(refused.body.contains("lacks role subledger_receiver"), "\(refused.body)")
        reader.signal(SIGTERM)
        try await reader.hasEnded()

        let both = try database.server("reader,projector", user: String(user), more: ["PGPASSWORD": "test"])
        try await both.hasEnded()

        #expect(both.exitStatus == 69)
        #expect(both.log.contains("subledger_projector"))
    }
}
