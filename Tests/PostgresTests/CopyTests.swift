import Testing

@testable import Postgres

extension WithServer {
    @Suite("copied rows arrive unchanged")
    struct CopyTests {
        static let copy = Statement(
            "copy_rows", "copy copied (t, u, j, b, i, l, z, a) from stdin (format binary)")

        private static func connect() async throws -> PostgresConnection {
            let connection = try await TestServer.connect()
            try await connection.script(
                """
                create temporary table copied (
                  t text, u text, j jsonb, b boolean, i integer constraint copied_i_key unique, l bigint,
                  z timestamptz, a bigint[]
                )
                """, deadline: soon())
            return connection
        }

        private static func rows(_ numbers: Range<Int32>) -> CopyRows {
            var rows = CopyRows(columns: 8, rows: numbers.count, rowBytes: 100)
            for number in numbers { rows.appendSample(number) }
            return rows
        }

        @Test("a value and a null of every type are unchanged")
        func types() async throws {
            let connection = try await Self.connect()
            var rows = Self.rows(7..<8)
            rows.beginRow()
            rows.append(nil as String?)
            rows.appendNull()
            rows.append(json: nil)
            rows.append(nil as Bool?)
            rows.append(nil as Int32?)
            rows.append(nil as Int64?)
            rows.append(nil as Timestamptz?)
            rows.append([])

            let result = try await connection.query(Step(Self.copy, copying: rows), deadline: soon())
            let read = try await connection.query(
                Statement("copy_read", "select concat_ws('|', t, u, j, b, i, l, z at time zone 'UTC', a) from copied"),
                deadline: soon())

            #expect(result.affectedRows == 2)
            #expect(
                try read.map { try $0.value(String.self, at: 0) } == [
                    "tä|u|{\"a\": 1}|t|7|-9223372036854775808|2020-01-01 00:00:00.000001|{1,-2}", "{}",
                ])
        }

        @Test("numbers keep their digits and their scale")
        func numbers() async throws {
            let connection = try await TestServer.connect()
            try await connection.script(
                "create temporary table copied (i integer, n numeric, s bytea)", deadline: soon())
            let numbers: [String?] = [
                nil, "0", "7", "-7", "17.50", "-0.05", ".5", "0.00010", "9999", "10000", "123456789.123456789",
                "-1000000", "100000000000000000000000000000000000.01",
            ]
            var rows = CopyRows(columns: 3, rows: numbers.count, rowBytes: 100)
            for (place, number) in numbers.enumerated() {
                rows.beginRow()
                rows.append(Int32(place))
                rows.append(numeric: number)
                rows.append(bytes: [0, 255])
            }

            _ = try await connection.query(
                Step(Statement("copy_numbers", "copy copied (i, n, s) from stdin (format binary)"), copying: rows),
                deadline: soon())
            let read = try await connection.query(
                Statement("copy_numbers_read", "select n::text, encode(s, 'hex') from copied order by i"),
                deadline: soon())

            #expect(
                try read.map { try $0.optional(String.self, at: 0) } == numbers.map { $0 == ".5" ? "0.5" : $0 })
            #expect(try read.allSatisfy { try $0.value(String.self, at: 1) == "00ff" })
        }

        @Test("more rows than the socket buffers hold are unchanged")
        func many() async throws {
            let connection = try await Self.connect()

            let result = try await connection.query(
                Step(Self.copy, copying: Self.rows(0..<50_000)), deadline: soon())

            #expect(result.affectedRows == 50_000)
        }

        @Test("a rejected row is an error with its constraint, no row is copied, and the connection stays usable")
        func refused() async throws {
            let connection = try await Self.connect()
            _ = try await connection.query(Step(Self.copy, copying: Self.rows(1..<2)), deadline: soon())

            let error = try await failure { () throws(PostgresError) in
                try await connection.query(Step(Self.copy, copying: Self.rows(0..<50_000)), deadline: soon())
            }

            #expect(error.kind == .server(sqlstate: "23505"))
            #expect(error.constraint == "copied_i_key")
            let count = try await connection.query(
                Statement("copy_count", "select count(*) from copied"), deadline: soon())
            #expect(try count[0].value(Int64.self, at: 0) == 1)
        }
    }
}
