/// The value of one `$n` of a statement: a type, and bytes in binary format or SQL null.
package struct Parameter: Sendable {
    let oid: UInt32
    /// The encoded value; `nil` is SQL null.
    let bytes: [UInt8]?

    /// Encodes a value; `nil` is SQL null.
    package init<T: PostgresEncodable>(_ value: T?) {
        oid = T.postgresType.oid
        if let value {
            var buffer: [UInt8] = []
            value.encode(into: &buffer)
            bytes = buffer
        } else {
            bytes = nil
        }
    }

    init(oid: UInt32, bytes: [UInt8]) {
        self.oid = oid
        self.bytes = bytes
    }

    /// Encodes a one-dimensional array, for statements that read a batch with `unnest`; `nil` elements are SQL null.
    package static func array<T: PostgresEncodable>(_ values: [T?]) -> Parameter {
        let hasNull = values.contains { $0 == nil }
        var buffer = header(of: T.self, count: values.count, hasNull: hasNull)
        for value in values {
            if let value {
                append(value, to: &buffer)
            } else {
                Int32(-1).appendBigEndian(to: &buffer)
            }
        }
        return Parameter(oid: T.postgresType.arrayOID, bytes: buffer)
    }

    /// Encodes a one-dimensional array without nulls.
    package static func array<T: PostgresEncodable>(_ values: [T]) -> Parameter {
        var buffer = header(of: T.self, count: values.count, hasNull: false)
        for value in values {
            append(value, to: &buffer)
        }
        return Parameter(oid: T.postgresType.arrayOID, bytes: buffer)
    }

    /// Number of dimensions, null flag and element type; then, unless the array is empty, element count and lower
    /// bound.
    ///
    /// Source: PostgreSQL, `array_recv` in `src/backend/utils/adt/arrayfuncs.c`.
    private static func header<T: PostgresEncodable>(of type: T.Type, count: Int, hasNull: Bool) -> [UInt8] {
        var buffer: [UInt8] = []
        buffer.reserveCapacity(20 + count * 12)
        Int32(count == 0 ? 0 : 1).appendBigEndian(to: &buffer)
        Int32(hasNull ? 1 : 0).appendBigEndian(to: &buffer)
        T.postgresType.oid.appendBigEndian(to: &buffer)
        if count > 0 {
            Int32(count).appendBigEndian(to: &buffer)
            Int32(1).appendBigEndian(to: &buffer)
        }
        return buffer
    }

    /// Appends the length and then the value; the length is filled in after the value is encoded.
    private static func append<T: PostgresEncodable>(_ value: T, to buffer: inout [UInt8]) {
        let start = buffer.count
        Int32(0).appendBigEndian(to: &buffer)
        value.encode(into: &buffer)
        let length = Int32(buffer.count - start - 4)
        withUnsafeBytes(of: length.bigEndian) { bytes in
            for (offset, byte) in bytes.enumerated() {
                buffer[start + offset] = byte
            }
        }
    }
}
