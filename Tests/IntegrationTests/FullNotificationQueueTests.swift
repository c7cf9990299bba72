import Foundation
import TestSupport
import Testing

/// A full queue has eight gigabytes. So each session of the database finds functions before PostgreSQL's own that answer as
/// those do while the queue is full.
@Suite("While PostgreSQL's queue of notifications is full, everything goes on")
struct FullNotificationQueueTests {
    private static let full = """
        create schema full_queue;
        create function full_queue.pg_notification_queue_usage() returns double precision language sql
        as 'select 1.0::double precision';
        create function full_queue.pg_notify(text, text) returns void language plpgsql as $$
        begin
          raise exception 'too many notifications in the NOTIFY queue' using errcode = 'program_limit_exceeded';
        end
        $$;
        grant usage on schema full_queue to public;
        """

    @Test("notifications are stored and folded within seconds, products change, the feed wakes, and a metric says why")
    func goesOn() async throws {
        let database = try await SharedDatabase.make()
        try await database.script(
            "\(Self.full); alter database \(database.name) set search_path = full_queue, pg_catalog, public")
        let server = try database.server(
            "receiver,projector,reader,poller",
            more: ["SUBLEDGER_APP_BUNDLE_ID": V1Body.app, "SUBLEDGER_APP_SHARED_SECRET": V1Body.secret])
        let ports = try await server.ports()
        let apple = HTTPClient(port: ports.public)
        let backend = HTTPClient(port: ports.private, token: try await database.token(.admin))
        let place = "app=\(V1Body.app)&environment=production"
        // The first look of the projector, and of whatever else listens, is over.
        try await Task.sleep(for: .seconds(2))

        var waits: [Duration] = []
        for number in 1...4 {
            let start = ContinuousClock.now
            let answer = try await apple.post(try V1Body(number: number).bytes)
            #expect(answer.status == 200, "\(answer.body)")
            #expect(ContinuousClock.now - start < .seconds(2))
            _ = try await eventually(within: .seconds(20), "the purchase gives access") {
                let id = 2_000_000_000_000_000 + number
                return try await backend.get("/customers/\(id)/entitlements?\(place)").status == 200 ? true : nil
            }
            waits.append(ContinuousClock.now - start)
        }
        // By the sweeps of quiet times alone, each would take up to ten seconds.
        #expect(waits.allSatisfy { $0 < .seconds(4) }, "\(waits)")

        let cursor = try #require(
            try await backend.get("/changes?\(place)&after=now").json["cursor"] as? String)
        let start = ContinuousClock.now
        async let waiting = backend.get("/changes?after=\(cursor)&wait=30")
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let bought = V1Body(
            type: "INITIAL_BUY", subscription: "9", transaction: "9", purchase: now - 60_000, expires: now + 86_400_000)
        #expect(try await apple.post(try bought.bytes).status == 200)
        let found = try await waiting
        #expect(ContinuousClock.now - start < .seconds(8))
        #expect((found.json["changes"] as? [Any])?.count == 1, "\(found.body)")

        let product = try await backend.put(
            #"{"entitlements":["gold"]}"#, to: "/products/com.example.magazine.monthly?app=\(V1Body.app)")
        #expect(product.status == 200, "\(product.body)")
        _ = try await eventually(within: .seconds(20), "the change of the product is applied") {
            try await backend.get("/customers/9/entitlements?\(place)").body.contains("gold") ? true : nil
        }
        let metrics = try await backend.get("/metrics").body
        #expect(metrics.contains("\nsubledger_notification_queue_usage 1"))
        server.signal(SIGTERM)
        try await server.hasEnded()
        try await database.drop()
    }
}
