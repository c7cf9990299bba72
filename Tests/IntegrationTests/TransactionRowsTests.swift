import TestSupport
import Testing

@testable import Postgres
@testable import Projector

@Suite("Rows of transactions")
struct TransactionRowsTests {
    private static func copiedColumns() throws -> [String] {
        let sql = ProjectionStatements.copyTransactions.sql.description
        let list = try #require(sql.firstMatch(of: /\(([^)]*)\)/)).output.1
        return list.split { $0 == "," || $0.isWhitespace }.map(String.init)
    }

    @Test("fields are copied in order, each to the column of its name")
    func fields() throws {
        let copied = try Self.copiedColumns()

        let fields = TransactionRows.fieldNames.map { name in
            name.description.map { $0.isUppercase ? "_\($0.lowercased())" : "\($0)" }.joined()
        }

        #expect(Array(copied.dropFirst(TransactionRows.ownColumns)) == fields)
    }

    @Test("every column of the table is copied")
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

        #expect(try Self.copiedColumns().sorted() == columns.sorted())
    }
}
