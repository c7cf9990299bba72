import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

/// A log with a tree, and what signs its checkpoints.
struct TreeLog {
    static let stream = StreamKey(app: V1Body.app, environment: .sandbox)

    let log: SimulatedLog
    let key: HeadKey
    /// Where the last signed checkpoints are recorded.
    let record: CheckpointRecord

    var signer: CheckpointSigner {
        CheckpointSigner(key: key, installation: "test", record: record, now: { TestBundle.now })
    }

    /// Runs the test with a copy of a log of a few stories, whose trigger against changes is off.
    static func with(
        key: HeadKey = HeadKey(), record: CheckpointRecord? = nil, _ test: (TreeLog) async throws -> Void
    ) async throws {
        let folder = TestFolder.path("checkpoints")
        defer { if record == nil { try? FileManager.default.removeItem(atPath: folder) } }
        let template = try await SimulatedLog.fewStories.value
        try await SimulatedLog.with(from: template) { log in
            try await log.script("alter table subledger.event disable trigger event_append_only")
            try await test(TreeLog(log: log, key: key, record: record ?? CheckpointRecord(folder: folder)))
        }
    }

    func withStore<Value>(_ body: (TreeStore) async throws -> Value) async throws -> Value {
        let connection = try await TestCluster.connect(log.database.with(role: "subledger_projector"))
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(try await body(TreeStore(connection: connection)))
        } catch {
            outcome = .failure(error)
        }
        await connection.close()
        return try outcome.get()
    }

    /// The stream with the state of its tree.
    func state(_ store: TreeStore) async throws -> TreeStream {
        try #require(try await store.streams().first { $0.key == Self.stream })
    }

    /// Signs a checkpoint of the whole log.
    @discardableResult
    func sign() async throws -> SignedCheckpoint {
        try await withStore { store in
            try #require(try await signer.buildAndSign(try await state(store), in: store))
        }
    }

    /// Why nothing is signed.
    func problem() async throws -> TreeProblem? {
        do {
            try await sign()
            return nil
        } catch TreeError.problem(let problem) {
            return problem
        }
    }

    func keeper(_ recorder: LogRecorder = LogRecorder()) -> (keeper: TreeKeeper, pool: PostgresPool) {
        let pool = PostgresPool(log.database.with(role: "subledger_projector"), limit: 1, logger: recorder.logger)
        return (TreeKeeper(pool: pool, signer: signer, logger: recorder.logger), pool)
    }

    /// The tree as the log itself has it, without tiles.
    func leaves() async throws -> [[UInt8]] {
        try await withStore { store in
            let stream = try #require(try await store.audit.streams().first { $0.key == Self.stream })
            var leaves: [[UInt8]] = []
            while true {
                let links = try await store.audit.links(of: stream, after: Int64(leaves.count))
                guard !links.isEmpty else { return leaves }
                leaves += links.map { MerkleTree.leaf($0.digest) }
            }
        }
    }

    /// Adds copies of the first event, with keys of their own, so that the log has this many.
    func fill(to count: Int) async throws {
        let connection = try await TestCluster.connect(log.database)
        _ = try await connection.query(
            Statement(
                "tree_log_fill",
                """
                with made as (
                  insert into subledger.event (
                    stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, fingerprint,
                    facts, defects, body_sha256, chain_id, revocation, chain
                  )
                  select stream_id, number, received_at, occurred_at, source, type, subtype, kind,
                    sha256(uuid_send(gen_random_uuid())), fingerprint, facts, defects, body_sha256, chain_id, revocation,
                    chain
                  from subledger.event
                  cross join generate_series(
                    (select max(position) + 1 from subledger.event), $1::bigint) as made (number)
                  where position = 1
                  returning stream_id, position, received_at
                )
                insert into subledger.event_body (stream_id, position, received_at, body)
                select made.stream_id, made.position, made.received_at, first.body
                from made
                join subledger.event_body as first on first.stream_id = made.stream_id and first.position = 1
                on conflict do nothing
                """), [Parameter(Int64(count))], deadline: .now + .seconds(120))
        try await connection.script(ChainTests.recompute, deadline: .now + .seconds(120))
        await connection.close()
    }

    /// Forgets the tiles, as an owner does who has the tree made again.
    func forgetTiles() async throws {
        try await log.script("delete from subledger.head_tile; delete from subledger.head_tree")
    }
}
