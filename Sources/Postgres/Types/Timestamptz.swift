/// An instant in whole microseconds, the precision of the server.
///
/// `Int64.max` and `Int64.min` stand for the server's `infinity` and `-infinity`.
package struct Timestamptz: Sendable, Hashable, Comparable {
    package var microsecondsSinceUnixEpoch: Int64

    package init(microsecondsSinceUnixEpoch: Int64) {
        self.microsecondsSinceUnixEpoch = microsecondsSinceUnixEpoch
    }

    package static func < (left: Timestamptz, right: Timestamptz) -> Bool {
        left.microsecondsSinceUnixEpoch < right.microsecondsSinceUnixEpoch
    }

    /// The server's epoch, 2000-01-01, relative to 1970-01-01.
    private static let epochOffsetMicroseconds: Int64 = 946_684_800_000_000

    /// Microseconds since the server's epoch.
    var microsecondsOfServer: Int64 {
        guard microsecondsSinceUnixEpoch != .max else { return .max }
        let (difference, overflow) = microsecondsSinceUnixEpoch.subtractingReportingOverflow(
            Self.epochOffsetMicroseconds)
        return overflow ? .min : difference
    }
}

extension Timestamptz: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .timestamptz }

    package func encode(into buffer: inout [UInt8]) {
        microsecondsOfServer.appendBigEndian(to: &buffer)
    }

    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> Timestamptz {
        guard oid == PostgresType.timestamptz.oid else { throw .unexpectedType(oid, for: "timestamptz") }
        guard bytes.count == 8 else { throw .unexpectedLength(bytes.count, for: "timestamptz") }
        let microseconds = Int64(bigEndianBytes: bytes)
        if microseconds == .max || microseconds == .min {
            return Timestamptz(microsecondsSinceUnixEpoch: microseconds)
        }
        // The server's range ends later than 64 bits of microseconds since 1970.
        let (sum, overflow) = microseconds.addingReportingOverflow(epochOffsetMicroseconds)
        guard !overflow else { throw PostgresDecodingError("timestamptz is too far in the future") }
        return Timestamptz(microsecondsSinceUnixEpoch: sum)
    }
}
