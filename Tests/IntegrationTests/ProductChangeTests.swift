import Encoding
import EventLog
import Postgres
import Subscriptions
import TestSupport
import Testing

@testable import Projector

@Suite("Events go on while products change again and again")
struct ProductChangeTests {
    @Test("after rows were computed by other products, events have the stream for as long as that took")
    func rest() async throws {
        try await SimulatedLog.with { log in
            let deliveries = try await SimulatedLog.deliveries(subscriptions: 2)
            try await log.append(deliveries[..<4])
            #expect(await log.projector.foldAllStreams())
            let refolds = RefoldHistory()
            let pool = PostgresPool(
                log.database.with(role: "subledger_projector"), limit: StreamProjector.connectionsMax,
                logger: LogRecorder().logger)
            defer { Task { await pool.close() } }
            let projector = StreamProjector(pool: pool, streamId: 1, now: { .latest }, refolds: refolds)
            func configured(_ product: String) async throws -> Checkpoint {
                let owner = try await TestCluster.connect(log.database)
                try await owner.script(
                    """
                    insert into subledger.product (app, product_id, kind) values ('\(V1Body.app)', '\(product)', 'consumable')
                    """, deadline: .now + .seconds(20))
                await owner.close()
                return try await checkpoint()
            }
            func checkpoint() async throws -> Checkpoint {
                let writer = BatchWriter(
                    pool: pool, streamId: 1, tables: .live, now: { .latest }, onSharedTokens: { _ in },
                    onNotices: { _ in })
                return try await writer.checkpoint().get()
            }

            // The last rewrite took a minute.
            refolds.note(1, try await checkpoint(), took: .seconds(60))
            let changed = try await configured("com.example.coins")
            #expect(changed.isOutOfDate)
            try await log.append(deliveries[4...])
            let progress = try await projector.fold(batchesMax: 100)

            let head = try await checkpoint()
            #expect(progress == .folded(head.position))
            #expect(head.position > changed.position)
            // The new rows are computed as the others are.
            #expect(head.isOutOfDate)
            #expect(head.products == changed.products)
            guard case .caughtUp(let next?) = try await projector.fold(batchesMax: 100) else {
                Issue.record("the stream is not caught up")
                return
            }
            #expect(next > .zero && next <= .seconds(60))

            // The minute is over.
            refolds.note(1, changed, took: .zero)
            let other = try await configured("com.example.gems")
            let rewritten = try await projector.fold(batchesMax: 100)
            #expect(rewritten == .folded(head.position))
            let after = try await checkpoint()
            #expect(!after.isOutOfDate)
            #expect(after.products == other.configured)
        }
    }

    @Test("rows of another release, or by other rules of ownership, are computed again at once")
    func mustNotWait() {
        var checkpoint = Checkpoint(position: 1)
        checkpoint.configured = ByteString("x")
        #expect(checkpoint.isOutOfDate && checkpoint.canWait)
        checkpoint.projectionVersion -= 1
        #expect(checkpoint.isOutOfDate && !checkpoint.canWait)
    }
}
