import Foundation
import TestSupport
import Testing

@Suite("kill -9 while the App Store is asked loses no receipt")
struct HandInKillTests {
    /// What is killed while the store holds its answer back.
    enum Victim: Sendable, CaseIterable {
        case server
        case database
    }

    private static let subscription = "2000000000000001"

    private static let answer = """
        {"status":0,"environment":"Production","receipt":{"receipt_type":"Production","bundle_id":"\(V1Body.app)",\
        "request_date_ms":"1521600000000","in_app":[]},"latest_receipt_info":[\
        {"quantity":"1","product_id":"com.example.magazine.monthly","transaction_id":"\(subscription)",\
        "original_transaction_id":"\(subscription)","purchase_date_ms":"1521504000000",\
        "expires_date_ms":"4070908800000"}],\
        "pending_renewal_info":[{"auto_renew_product_id":"com.example.magazine.monthly",\
        "original_transaction_id":"\(subscription)","product_id":"com.example.magazine.monthly",\
        "auto_renew_status":"1"}]}
        """

    /// Both beside each other: each waits until the question of the one that was killed no longer counts.
    @Test("the receipt is answered within two minutes of a kill of the server, or of PostgreSQL, with one event")
    func killed() async throws {
        try await HeldStore.serveEach { (victim: Victim, folder, store) in
            try await Self.killed(victim, folder, store)
        }
    }

    private static func killed(_ victim: Victim, _ folder: DataFolder, _ store: HeldStore) async throws {
        var server = try ServerProcess(dataFolder: folder.path, environment: store.environment)
        let port = try await server.privatePort()
        let gateway = HTTPClient(port: port, token: try ServerProcess.token("submit", dataFolder: folder.path))
        let receipt = Data("receipt number one".utf8).base64EncodedString()
        let accepted = try await gateway.post(
            Array(#"{"receipt":"\#(receipt)"}"#.utf8), to: "/receipts?app=\(V1Body.app)&environment=any")
        #expect(accepted.status == 202, "\(accepted.body)")
        let id = try #require(accepted.json["id"] as? String)
        // The request has given up, and the queue asks.
        _ = try await eventually("the store is asked in the background") { store.requests >= 2 ? true : nil }

        switch victim {
        case .server:
            server.signal(SIGKILL)
            try await server.hasEnded()
            server = try ServerProcess(dataFolder: folder.path, environment: store.environment)
            store.release(answer)
        case .database:
            // The answer comes while the database is down.
            kill(try #require(folder.postmaster), SIGKILL)
            store.release(answer)
        }

        let backend = HTTPClient(port: try await server.privatePort(), token: gateway.token)
        let answered = try await eventually(within: .seconds(120), "the answer is projected") {
            let answer = try? await backend.get("/receipts/\(id)?environment=any")
            return answer?.json["projected"] as? Bool == true ? answer : nil
        }
        #expect(answered.json["state"] as? String == "answered", "\(victim)")
        #expect(answered.body.contains(subscription), "\(victim) \(answered.body)")
        #expect(try await folder.lines(events) == ["apple-receipt"], "\(victim)")

        server.signal(SIGTERM)
        try await server.hasEnded()
        #expect(server.exitStatus == 0)
    }

    private static let events = """
        select source
        from subledger.event
        order by position
        """ as StaticString
}
