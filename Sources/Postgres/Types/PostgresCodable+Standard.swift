extension Bool: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .bool }

    package func encode(into buffer: inout [UInt8]) {
        buffer.append(self ? 1 : 0)
    }

    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> Bool {
        guard oid == PostgresType.bool.oid else { throw .unexpectedType(oid, for: "bool") }
        guard bytes.count == 1 else { throw .unexpectedLength(bytes.count, for: "bool") }
        return bytes[0] != 0
    }
}

extension Int32: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .int4 }

    package func encode(into buffer: inout [UInt8]) {
        appendBigEndian(to: &buffer)
    }

    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> Int32 {
        guard oid == PostgresType.int4.oid else { throw .unexpectedType(oid, for: "int4") }
        guard bytes.count == 4 else { throw .unexpectedLength(bytes.count, for: "int4") }
        return Int32(bigEndianBytes: bytes)
    }
}

extension Int64: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .int8 }

    package func encode(into buffer: inout [UInt8]) {
        appendBigEndian(to: &buffer)
    }

    /// Reads `int8` and the narrower `int4`, which widens without loss.
    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> Int64 {
        switch oid {
        case PostgresType.int8.oid:
            guard bytes.count == 8 else { throw .unexpectedLength(bytes.count, for: "int8") }
            return Int64(bigEndianBytes: bytes)
        case PostgresType.int4.oid:
            return Int64(try Int32.decode(postgres: bytes, oid: oid))
        default:
            throw .unexpectedType(oid, for: "int8")
        }
    }
}

extension String: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .text }

    /// The server rejects a string that contains a zero byte (SQLSTATE 22021).
    package func encode(into buffer: inout [UInt8]) {
        buffer.append(contentsOf: utf8)
    }

    /// Reads `text`, `varchar` and `name`; invalid UTF-8 is an error and never repaired.
    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> String {
        guard oid == PostgresType.text.oid || oid == PostgresType.varcharOID || oid == PostgresType.nameOID else {
            throw .unexpectedType(oid, for: "text")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw PostgresDecodingError("text is not valid UTF-8")
        }
        return text
    }
}

extension [UInt8]: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .bytea }

    package func encode(into buffer: inout [UInt8]) {
        buffer.append(contentsOf: self)
    }

    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> [UInt8] {
        guard oid == PostgresType.bytea.oid else { throw .unexpectedType(oid, for: "bytea") }
        return [UInt8](bytes)
    }
}
