import Testing

@testable import Postgres

extension WithServer {
    @Suite("values survive a round trip to the server")
    struct TypeTests {
        @Test("every type keeps its extreme values and null")
        func scalars() async throws {
            let connection = try await TestServer.connect()

            try await check([true, false], Statement("t_bool", "select $1::bool"), connection)
            try await check([Int32.min, -1, 0, .max], Statement("t_int4", "select $1::int4"), connection)
            try await check([Int64.min, -1, 0, .max], Statement("t_int8", "select $1::int8"), connection)
            try await check(["", "a", "ä€😀", "' \" \\ ; --"], Statement("t_text", "select $1::text"), connection)
            try await check(
                [[], [0], Array(0...255)] as [[UInt8]], Statement("t_bytea", "select $1::bytea"), connection
            )
            try await check(
                [0, -1, 1, 1_700_000_000_123_456, -62_135_596_800_000_000, .max, .min].map {
                    Timestamptz(microsecondsSinceUnixEpoch: $0)
                },
                Statement("t_timestamptz", "select $1::timestamptz"), connection
            )
            try await check(
                [JSONB(utf8: Array(#"{"a": [1, null, "ä"]}"#.utf8))], Statement("t_jsonb", "select $1::jsonb"),
                connection
            )
        }

        @Test("a timestamptz is decoded to the server's instant")
        func timestamp() async throws {
            let connection = try await TestServer.connect()

            let rows = try await connection.query(
                Statement("t_instant", "select timestamptz '2024-02-29 12:00:00.000001+00', timestamptz 'infinity'"),
                deadline: soon()
            )

            #expect(try rows[0].value(Timestamptz.self, at: 0).microsecondsSinceUnixEpoch == 1_709_208_000_000_001)
            #expect(try rows[0].value(Timestamptz.self, at: 1).microsecondsSinceUnixEpoch == .max)
        }

        @Test("arrays keep order, nulls and emptiness")
        func arrays() async throws {
            let connection = try await TestServer.connect()
            let numbers: [Int64?] = [1, nil, .max, .min]
            let texts: [String?] = ["", nil, "ä", "{},\""]

            let rows = try await connection.query(
                Statement("t_arrays", "select $1::int8[], $2::text[], $3::bytea[], $4::int4[], cardinality($4)"),
                [.array(numbers), .array(texts), .array([[1, 2], []] as [[UInt8]]), .array([] as [Int32])],
                deadline: soon()
            )

            #expect(try rows[0].array(of: Int64.self, at: 0) == numbers)
            #expect(try rows[0].array(of: String.self, at: 1) == texts)
            #expect(try rows[0].array(of: [UInt8].self, at: 2) == [[1, 2], []])
            #expect(try rows[0].array(of: Int32.self, at: 3) == [])
            #expect(try rows[0].value(Int64.self, at: 4) == 0)
        }

        @Test("four megabytes are sent and received without a stall")
        func large() async throws {
            let connection = try await TestServer.connect()
            let bytes = (0..<(4 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31) }

            let rows = try await connection.query(
                Statement("t_large", "select $1::bytea"), [Parameter(bytes)], deadline: soon()
            )

            #expect(try rows[0].value([UInt8].self, at: 0) == bytes)
        }

        @Test("rows, columns and nulls are read by position and type")
        func reading() async throws {
            let connection = try await TestServer.connect()

            let rows = try await connection.query(
                Statement(
                    "t_reading",
                    "select n::int4, null::text, array[[1],[2]], 'x'::name from generate_series(1, 3) as n"
                ),
                deadline: soon()
            )

            #expect(rows.count == 3 && rows.affectedRows == 3)
            #expect(try rows.map { row throws(PostgresError) in try row.value(Int64.self, at: 0) } == [1, 2, 3])
            #expect(try rows[0].optional(String.self, at: 1) == nil)
            #expect(try rows[0].value(String.self, at: 3) == "x")
            #expect(throws: PostgresError(.decoding)) { try rows[0].value(String.self, at: 1) }
            #expect(throws: PostgresError(.decoding)) { try rows[0].value(String.self, at: 0) }
            #expect(throws: PostgresError(.decoding)) { try rows[0].value(Bool.self, at: 4) }
            #expect(throws: PostgresError(.decoding)) { try rows[0].array(of: Int32.self, at: 2) }
        }

        private func check<T: PostgresEncodable & PostgresDecodable & Equatable>(
            _ values: [T], _ statement: Statement, _ connection: PostgresConnection
        ) async throws {
            for value in values {
                let rows = try await connection.query(statement, [Parameter(value)], deadline: soon())
                #expect(try rows[0].value(T.self, at: 0) == value)
            }
            let rows = try await connection.query(statement, [Parameter(nil as T?)], deadline: soon())
            #expect(try rows[0].optional(T.self, at: 0) == nil)
        }
    }
}

@Suite("malformed bytes are rejected")
struct DecodingTests {
    @Test("invalid UTF-8, short integers and unknown versions are errors")
    func scalars() {
        #expect(throws: PostgresDecodingError.self) { try decode(String.self, [0xc3, 0x28], oid: 25) }
        #expect(throws: PostgresDecodingError.self) { try decode(Int32.self, [1, 2, 3], oid: 23) }
        #expect(throws: PostgresDecodingError.self) { try decode(JSONB.self, [2, 0x7b], oid: 3802) }
        #expect(throws: PostgresDecodingError.self) { try decode(JSONB.self, [], oid: 3802) }
        #expect(throws: PostgresDecodingError.self) {
            try decode(Timestamptz.self, [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], oid: 1184)
        }
    }

    @Test("an array with a wrong length or element count is rejected")
    func arrays() throws {
        let bytes = try #require(Parameter.array([Int32(7), nil, 9]).bytes)

        #expect(try elements(bytes) == [7, nil, 9])
        for length in 0..<bytes.count {
            #expect(throws: PostgresDecodingError.self) { try elements(Array(bytes.prefix(length))) }
        }
        #expect(throws: PostgresDecodingError.self) { try elements(bytes + [0]) }
        var lying = bytes
        lying[12] = 0x7f
        #expect(throws: PostgresDecodingError.self) { try elements(lying) }
    }

    private func decode<T: PostgresDecodable>(_ type: T.Type, _ bytes: [UInt8], oid: UInt32) throws -> T {
        try bytes.withUnsafeBytes { try T.decode(postgres: $0, oid: oid) }
    }

    private func elements(_ bytes: [UInt8]) throws -> [Int32?] {
        try bytes.withUnsafeBytes { bytes in
            var decoder = ArrayDecoder(bytes)
            return try decoder.elements(of: Int32.self)
        }
    }
}
