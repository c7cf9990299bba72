import TestSupport
import Testing

@testable import Postgres
@testable import Projector

@Suite("Rows of transactions")
struct TransactionRowsTests {
    @Test("each field of a transaction has a column of its name, and every column of the table is written")
    func columns() async throws {
        let connection = try await TestCluster.connect(try await TestCluster.freshDatabase())

        let rows = try await connection.query(
            Statement(
                "test_transaction_columns",
                """
                select attname::text
                from pg_attribute
                where attrelid = 'subledger.transaction'::regclass
                  and attnum > 0
                  and not attisdropped
                """), deadline: .now + .seconds(20))
        var columns: [String] = []
        for row in rows { columns.append(try row.value(at: 0)) }
        await connection.close()

        #expect(TransactionRows.columns.map(\.text).sorted() == columns.sorted())
    }
}
