import Foundation
import TestSupport
import Testing

@Suite("GET /events returns the log of a stream in pages, filtered, from any position")
struct EventRouteTests {
    /// 45,000 events, one a second from 2020-01-01 on. Every thousandth is a REFUND.
    private static let log: StaticString = """
        with stream as (
          insert into subledger.stream (stream_id, app, environment)
          values (1, 'com.example.magazine', 'production')
        ),
        head as (
          insert into subledger.stream_head (stream_id, position, chain)
          values (1, 45000, sha256(''))
        )
        insert into subledger.event (
          stream_id, position, received_at, source, type, kind, dedupe_key, facts, body_sha256, chain
        )
        select
          1, number, timestamptz '2020-01-01 00:00:00Z' + number * interval '1 second',
          case when number % 2 = 0 then 'apple-v1' else 'apple-v2' end,
          case when number % 1000 = 0 then 'REFUND' else 'DID_RENEW' end,
          case when number % 1000 = 0 then 'refund' else 'renewal' end,
          sha256(number::text::bytea), '{"transactions":[],"renewals":[]}', sha256('{}'),
          sha256('')
        from generate_series(1, 45000) as number
        returning position::text
        """

    /// The positions of all pages for a query, and the number of pages.
    private static func positions(_ query: String, _ server: TestBundle) async throws -> (all: [Int], pages: Int) {
        var found: [Int] = []
        var cursor = ""
        for pages in 1...1000 {
            let page = try await server.backend.get("/events?app=com.example.magazine\(query)\(cursor)").json
            let events = try #require(page["events"] as? [[String: Any]])
            found += events.compactMap { $0["position"] as? Int }
            cursor = "&after=\(try #require(page["cursor"] as? String))"
            if page["more"] as? Bool == false { return (found, pages) }
        }
        return (found, 1000)
    }

    @Test("a position after the end of the log is answered 410, also after a restore from a backup")
    func beyondHead() async throws {
        try await TestBundle.withServer { server in
            #expect(try await server.sql(Self.log).count == 45_000)
            let last = try await server.backend.get("/events?app=com.example.magazine&after=44990")
            let cursor = try #require(last.json["cursor"] as? String)
            let atHead = try await server.backend.get("/events?app=com.example.magazine&after=45000")
            #expect(atHead.status == 200)
            #expect(atHead.json["cursor"] as? String == cursor)

            let beyond = try await server.backend.get("/events?app=com.example.magazine&after=45001")
            _ = try await server.sql("update subledger.stream_head set position = 44000 returning position::text")
            let restored = try await server.backend.get("/events?app=com.example.magazine&after=\(cursor)")
            let filtered = try await server.backend.get("/events?app=com.example.magazine&after=\(cursor)&type=NEVER")

            #expect([beyond, restored, filtered].map(\.status) == [410, 410, 410])
            #expect(beyond.json["field"] as? String == "after")
            #expect(restored.json["field"] as? String == "after")
        }
    }

    @Test("a cursor is answered 410 if another event has its position now, as after a restored backup")
    func replaced() async throws {
        try await TestBundle.withServer { server in
            func page(_ query: String) async throws -> HTTPAnswer {
                try await server.backend.get("/events?app=\(V1Body.app)\(query)")
            }
            for number in 1...3 { _ = try await server.apple.post(try V1Body(number: number).bytes) }
            let kept = try #require(try await page("&limit=2").json["cursor"] as? String)
            let lost = try #require(try await page("").json["cursor"] as? String)
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                """
                alter table subledger.event disable trigger event_append_only;
                alter table subledger.event_body disable trigger event_body_append_only;
                delete from subledger.event where position = 3;
                delete from subledger.event_body where position = 3;
                update subledger.stream_head set position = 2, chain = event.chain
                from subledger.event where event.position = 2;
                alter table subledger.event enable always trigger event_append_only;
                alter table subledger.event_body enable always trigger event_body_append_only
                """, deadline: .now + .seconds(20))
            await owner.close()
            for number in 4...5 { _ = try await server.apple.post(try V1Body(number: number).bytes) }

            let refused = try await page("&after=\(lost)")
            #expect(refused.status == 410)
            #expect(refused.json["field"] as? String == "after")
            #expect(try await page("&after=\(lost)&type=NEVER").status == 410)
            let next = try await page("&after=\(kept)")
            #expect((next.json["events"] as? [[String: Any]])?.compactMap { $0["position"] as? Int } == [3, 4])
            #expect(try await page("&after=3").status == 200, "a bare position cannot be checked")
        }
    }

    @Test("each filter returns all matching events, over as many pages as needed")
    func filters() async throws {
        try await TestBundle.withServer { server in
            #expect(try await server.sql(Self.log).count == 45_000)
            let refunds = Array(stride(from: 1000, through: 45_000, by: 1000))

            #expect(try await Self.positions("&type=REFUND&limit=7", server).all == refunds)
            #expect(try await Self.positions("&kind=refund", server).all == refunds)
            #expect(try await Self.positions("&kind=refund&source=apple-v2", server).all == [])
            let rare = try await Self.positions("&type=NEVER", server)
            #expect(rare.all == [])
            #expect(rare.pages == 3, "each page reads at most 20,000 events")
            let hour = try await Self.positions(
                "&receivedFrom=2020-01-01T11:00:00Z&receivedUntil=2020-01-01T12:00:00Z&limit=1000", server)
            #expect(hour.all == Array(39_600..<43_200))
            #expect(hour.pages == 4, "the first page starts at the first match")
            #expect(try await Self.positions("&receivedFrom=2031-01-01T00:00:00Z", server).all == [])
            #expect(try await Self.positions("&receivedUntil=2019-01-01T00:00:00Z", server).all == [])
            #expect(try await Self.positions("&type=%27%20or%20%271%27=%271", server).all == [])
        }
    }

    @Test("a cursor continues after its page and includes events appended since")
    func cursor() async throws {
        try await TestBundle.withServer { server in
            for number in 1...3 { _ = try await server.apple.post(try V1Body(number: number).bytes) }
            let first = try await server.backend.get("/events?app=\(V1Body.app)&limit=2").json
            let cursor = try #require(first["cursor"] as? String)
            #expect(first["more"] as? Bool == true)

            _ = try await server.apple.post(try V1Body(number: 4).bytes)
            let second = try await server.backend.get("/events?app=\(V1Body.app)&after=\(cursor)").json
            let last = try #require(second["cursor"] as? String)
            let end = try await server.backend.get("/events?app=\(V1Body.app)&after=\(last)").json
            let other = try await server.backend.get("/events?app=\(V1Body.app)&environment=sandbox&after=\(cursor)")

            #expect((second["events"] as? [[String: Any]])?.compactMap { $0["position"] as? Int } == [3, 4])
            #expect(second["more"] as? Bool == false)
            #expect((end["events"] as? [Any])?.isEmpty == true)
            #expect(end["cursor"] as? String == last)
            #expect(other.status == 400)
            #expect(other.json["field"] as? String == "after")
        }
    }
}
