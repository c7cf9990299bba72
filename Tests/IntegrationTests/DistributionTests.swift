import EventLog
import Postgres
import TestSupport
import Testing

@Suite("Where the tables of a distributed database are")
struct DistributionTests {
    @Test("each table has one place: with its stream if its key begins with it, else on all nodes or the coordinator")
    func places() async throws {
        let connection = try await TestCluster.connect(try await TestCluster.freshDatabase())

        let rows = try await connection.query(
            Statement(
                "test_keys",
                """
                select relname::text,
                  exists (
                    select
                    from pg_index
                    join pg_attribute on attrelid = indrelid
                      and attnum = indkey[0]
                    where indrelid = pg_class.oid
                      and indisprimary
                      and attname = 'stream_id'
                  )
                from pg_class
                where relnamespace = 'subledger'::regnamespace
                  and relkind in ('r', 'p')
                  and not relispartition
                """), deadline: .now + .seconds(20))
        var tables: [String] = []
        var keyed: [String] = []
        for row in rows {
            let name: String = try row.value(at: 0)
            tables.append(name)
            if try row.value(at: 1) { keyed.append(name) }
        }
        await connection.close()

        let (byStream, onAllNodes) = (Distribution.byStream, Distribution.onAllNodes)
        #expect((byStream + onAllNodes + Distribution.onCoordinator).sorted() == tables.sorted())
        #expect(byStream.sorted() == keyed.filter { !["stream", "google_intake"].contains($0) }.sorted())
        #expect(byStream.first == "stream_head")
    }
}
