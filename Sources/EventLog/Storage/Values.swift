import Encoding
import Postgres

extension Instant: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .timestamptz }

    package func encode(into buffer: inout [UInt8]) {
        Timestamptz(self).encode(into: &buffer)
    }

    /// - Throws: If the time is outside the years 1970 to 9999. Subledger never writes such a time.
    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> Instant {
        let microseconds = try Timestamptz.decode(postgres: bytes, oid: oid).microsecondsSinceUnixEpoch
        guard let instant = Instant(milliseconds: microseconds / 1000) else {
            throw PostgresDecodingError("a time outside 1970...9999")
        }
        return instant
    }
}

extension Timestamptz {
    init(_ instant: Instant) {
        self.init(microsecondsSinceUnixEpoch: instant.milliseconds * 1000)
    }
}
