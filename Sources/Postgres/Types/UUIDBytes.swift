/// A UUID as sixteen bytes, in written order.
package struct UUIDBytes: Sendable, Hashable {
    package let bytes: [UInt8]

    /// Fails unless there are exactly sixteen bytes.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }
}

extension UUIDBytes: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .uuid }

    package func encode(into buffer: inout [UInt8]) {
        buffer.append(contentsOf: bytes)
    }

    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> UUIDBytes {
        guard oid == PostgresType.uuid.oid else { throw .unexpectedType(oid, for: "uuid") }
        guard let uuid = UUIDBytes(bytes: [UInt8](bytes)) else { throw .unexpectedLength(bytes.count, for: "uuid") }
        return uuid
    }
}
