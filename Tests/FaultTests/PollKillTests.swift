import Foundation
import TestSupport
import Testing

@Suite("kill -9 while the App Store is asked loses no check")
struct PollKillTests {
    private static let subscription = "2000000000000001"

    /// What is killed while the store holds its answer back.
    enum Victim: Sendable, CaseIterable {
        case server
        case database
        case both
    }

    /// The subscription of `V1Body(number: 1)`, renewed when its period ended on 2018-03-20.
    private static let answer = """
        {"status":0,"environment":"Production","receipt":{"receipt_type":"Production","bundle_id":"\(V1Body.app)",\
        "request_date_ms":"1521600000000","in_app":[]},"latest_receipt_info":[\
        {"quantity":"1","product_id":"com.example.magazine.monthly","transaction_id":"\(subscription)",\
        "original_transaction_id":"\(subscription)","purchase_date_ms":"1519084800000",\
        "expires_date_ms":"1521504000000"},\
        {"quantity":"1","product_id":"com.example.magazine.monthly","transaction_id":"2000000000000009",\
        "original_transaction_id":"\(subscription)","purchase_date_ms":"1521504000000",\
        "expires_date_ms":"4070908800000"}],\
        "pending_renewal_info":[{"auto_renew_product_id":"com.example.magazine.monthly",\
        "original_transaction_id":"\(subscription)","product_id":"com.example.magazine.monthly",\
        "auto_renew_status":"1"}]}
        """

    /// All beside each other: each waits until the question of the one that was killed no longer counts.
    @Test("the check is made after a kill of server, PostgreSQL or both, with one more question at most and one event")
    func killed() async throws {
        try await HeldStore.serveEach { (victim: Victim, folder, store) in
            try await Self.killed(victim, folder, store)
        }
    }

    private static func killed(_ victim: Victim, _ folder: DataFolder, _ store: HeldStore) async throws {
        var server = try ServerProcess(dataFolder: folder.path, environment: store.environment)
        let apple = HTTPClient(port: try await server.ports().public)
        #expect(try await apple.post(try V1Body(number: 1).bytes).status == 200)
        _ = try await eventually("the store is asked") { store.requests >= 1 ? true : nil }

        let postmaster = try #require(folder.postmaster)
        if victim != .server { kill(postmaster, SIGKILL) }
        if victim == .database {
            let health = HTTPClient(port: try await server.privatePort())
            _ = try await eventually("PostgreSQL is restarted") { () -> Bool? in
                guard let current = folder.postmaster, current != postmaster else { return nil }
                return try await health.get("/health/ready").status == 200 ? true : nil
            }
        } else {
            server.signal(SIGKILL)
            try await server.hasEnded()
            server = try ServerProcess(dataFolder: folder.path, environment: store.environment)
            _ = try await eventually("the store is asked again") { store.requests >= 2 ? true : nil }
        }
        // Another subscription, which is not due before 2099. Once it is stored, the log can be written again.
        let port = try await server.ports().public
        let other = try V1Body(
            type: "INITIAL_BUY", subscription: "2000000000000002", transaction: "2000000000000002",
            expires: 4_070_908_800_000
        ).bytes
        _ = try await eventually("a notification is stored after the restart") {
            try await HTTPClient(port: port).post(other).status == 200 ? true : nil
        }
        store.release(Self.answer)

        let token = try ServerProcess.token(dataFolder: folder.path)
        let backend = HTTPClient(port: try await server.privatePort(), token: token)
        let subscription = try await eventually("the answer is folded") {
            let answer = try await backend.get("/subscriptions/\(Self.subscription)")
            return answer.json["status"] as? String == "active" ? answer : nil
        }
        let check = try await eventually("the check is recorded") {
            try await folder.lines(Self.checks).first
        }
        #expect(subscription.body.contains(#""2000000000000009""#), "\(victim)")
        // Due an hour after the end of the period. The next check follows the new period, which ends in 2099.
        #expect(check == "1521507600000 renewal appended 0 3 4070912400000", "\(victim)")
        #expect(try await folder.lines(Self.checks).count == 1, "\(victim)")
        #expect(try await folder.lines(Self.events) == ["apple-v1", "apple-v1", "apple-receipt"], "\(victim)")
        // A new process knows nothing of the question, so it asks again.
        #expect(store.requests <= 2, "\(victim)")
        let verified = try ServerProcess.run(["verify", "--all", "--data-folder", folder.path, "--log-level", "error"])
        #expect(verified.status == 0, "\(verified.output)\(verified.error)")
        #expect(verified.output == "verified: streams 1, events 3, subscriptions 2 (all subscriptions)\n")

        server.signal(SIGTERM)
        try await server.hasEnded()
        #expect(server.exitStatus == 0)
    }

    private static let checks = """
        select concat_ws(' ', (extract(epoch from due_at) * 1000)::bigint, reason, result, status, position,
          (extract(epoch from next_at) * 1000)::bigint)
        from subledger.store_check
        order by asked_at
        """ as StaticString

    private static let events = """
        select source
        from subledger.event
        order by position
        """ as StaticString
}
