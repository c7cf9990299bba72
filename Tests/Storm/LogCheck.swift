import Crypto
import Encoding
import EventLog
import Foundation
import Postgres
import Subscriptions

/// Checks that the log contains every acknowledged notification once and unchanged, and nothing that was not sent.
struct LogCheck {
    let run: StormRun

    func run() async throws {
        let content = run.sender.ledger.content
        var stored: [Place: Data] = [:]
        var heads: [Subscriptions.Environment: Int64] = [:]
        try await LogPages(run.database).forEach { event in
            stored[event.place] = event.digest
            heads[event.place.environment, default: 0] += 1
            if event.place.position != heads[event.place.environment] {
                run.report.problem("gap in the positions before \(event.place)")
                heads[event.place.environment] = event.place.position
            }
            if event.digest != event.storedDigest { run.report.problem("body_sha256 is wrong at \(event.place)") }
            if !content.authentic.contains(event.digest) {
                run.report.problem("the event at \(event.place) was never sent")
            }
        }
        try await compareHeads(heads)
        // Whether version 1 may be stored again is checked where the log is folded in memory.
        let repeated = Dictionary(grouping: stored, by: \.value).filter {
            $0.value.count > 1 && content.signed.contains($0.key)
        }
        for places in repeated.values { run.report.problem("the same body is stored at \(places.map(\.key))") }
        let conflicts = try await conflicts()
        for conflict in conflicts where !content.authentic.contains(conflict.digest) {
            run.report.problem("the conflict at \(conflict.place) was never sent")
        }
        compare(content, stored, conflicts)
        run.report.log(
            "\(stored.count) events, \(conflicts.count) conflicts, \(content.acknowledged.count) acknowledged")
    }

    private func compare(_ content: SentLedger.Content, _ stored: [Place: Data], _ conflicts: Set<Conflict>) {
        var lost = 0
        for (digest, acknowledgement) in content.acknowledged.flatMap({ digest, all in all.map { (digest, $0) } }) {
            let place = acknowledgement.place
            if acknowledgement.isConflict {
                if conflicts.contains(Conflict(place: place, digest: digest)) { continue }
            } else if stored[place] == digest {
                continue
            }
            lost += 1
            run.report.problem("acknowledged at \(place) but missing (conflict \(acknowledgement.isConflict))")
        }
        run.report.addLost(lost)
    }

    private func compareHeads(_ heads: [Subscriptions.Environment: Int64]) async throws {
        let rows = try await run.database.rows(
            Statement(
                "storm_heads",
                """
                select environment, position
                from subledger.stream
                join subledger.stream_head using (stream_id)
                where app = $1
                """), [Parameter(StormLoad.app)])
        for row in rows {
            let name: String = try row.value(at: 0)
            let position: Int64 = try row.value(at: 1)
            let counted = Environment(rawValue: name).flatMap { heads[$0] } ?? 0
            if position != counted { run.report.problem("\(counted) events in \(name), but its head is \(position)") }
        }
    }

    private struct Conflict: Hashable {
        let place: Place
        let digest: Data
    }

    private func conflicts() async throws -> Set<Conflict> {
        let rows = try await run.database.rows(
            Statement(
                "storm_conflicts",
                """
                select environment, position, subledger.rebuilt_body(stream_id, body)
                from subledger.event_conflict
                join subledger.stream using (stream_id)
                """))
        var conflicts: Set<Conflict> = []
        for row in rows {
            guard let environment = Environment(rawValue: try row.value(at: 0)) else { continue }
            conflicts.insert(
                Conflict(
                    place: Place(environment: environment, position: try row.value(at: 1)),
                    digest: Data(SHA256.hash(data: try row.value([UInt8].self, at: 2)))))
        }
        return conflicts
    }
}

/// All events in the order of their positions, one stream after another.
struct LogPages {
    struct StoredBody {
        let place: Place
        let receivedAt: Instant
        let body: [UInt8]
        let digest: Data
        /// The `body_sha256` of the row.
        let storedDigest: Data
    }

    private static let pageMax: Int64 = 500
    private let database: StormDatabase

    init(_ database: StormDatabase) {
        self.database = database
    }

    func forEach(_ visit: (StoredBody) throws -> Void) async throws {
        for environment in Environment.allCases {
            var after: Int64 = 0
            while true {
                let rows = try await database.rows(
                    Statements.page,
                    [
                        Parameter(environment.rawValue), Parameter(after), Parameter(Self.pageMax),
                        Parameter(StormLoad.app),
                    ])
                if rows.isEmpty { break }
                for row in rows {
                    after = try row.value(at: 0)
                    let body: [UInt8] = try row.value(at: 2)
                    try visit(
                        StoredBody(
                            place: Place(environment: environment, position: after), receivedAt: try row.value(at: 1),
                            body: body, digest: Data(SHA256.hash(data: body)),
                            storedDigest: Data(try row.value([UInt8].self, at: 3))))
                }
            }
        }
    }

    private enum Statements {
        static let page = Statement(
            "storm_page",
            """
            select event.position, event.received_at, subledger.event_body(event.stream_id, event.position),
              event.body_sha256
            from subledger.event
            join subledger.stream using (stream_id)
            where stream.environment = $1
              and stream.app = $4
              and event.position > $2
            order by event.position
            limit $3
            """)
    }
}
