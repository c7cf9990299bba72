import Testing

@testable import Postgres

extension WithServer {
    @Suite("rows sent as one array per column arrive unchanged")
    struct ArrayRowsTests {
        private static let read = Statement(
            "array_rows_read",
            """
            select concat_ws('|', t, u, j, b, i, l, z, a)
            from (
              select unnest($1::text[]) as t, unnest($2::text[]) as u, unnest($3::jsonb[]) as j,
                unnest($4::boolean[]) as b, unnest($5::integer[]) as i, unnest($6::bigint[]) as l,
                unnest($7::timestamptz[]) at time zone 'UTC' as z, unnest($8::text[])::bigint[] as a
            ) as input
            """)

        private static func read(_ rows: ArrayRows) async throws -> [String] {
            let connection = try await TestServer.connect()
            let result = try await connection.query(read, rows.parameters(), deadline: soon())
            return try result.map { try $0.value(String.self, at: 0) }
        }

        @Test("a value and a null of every type are unchanged")
        func types() async throws {
            var rows = ArrayRows(columns: 8, rows: 3, valueBytes: 8)
            rows.appendSample(7)
            rows.beginRow()
            rows.append(nil as String?)
            rows.append(utf8: [])
            rows.append(json: nil)
            rows.append(nil as Bool?)
            rows.append(nil as Int32?)
            rows.append(nil as Int64?)
            rows.append(nil as Timestamptz?)
            rows.append([])
            rows.appendSample(8)

            let read = try await Self.read(rows)

            func whole(_ number: Int) -> String {
                "tä|u|{\"a\": 1}|t|\(number)|-9223372036854775808|2020-01-01 00:00:00.000001|{1,-2}"
            }
            #expect(read == [whole(7), "|{}", whole(8)])
        }

        @Test("more rows than memory was reserved for are unchanged")
        func many() async throws {
            var rows = ArrayRows(columns: 8, rows: 1, valueBytes: 0)
            for number in 0..<10_000 { rows.appendSample(Int32(number)) }

            let read = try await Self.read(rows)

            #expect(read.count == 10_000)
            #expect(read.last?.hasPrefix("tä|u|{\"a\": 1}|t|9999|") == true)
        }
    }
}
