/// JSON text of a `jsonb` column, as UTF-8. The server validates it and drops key order and duplicate keys.
package struct JSONB: Sendable, Hashable {
    package var utf8: [UInt8]

    package init(utf8: [UInt8]) {
        self.utf8 = utf8
    }

    /// The only version of the binary format; the byte precedes the text.
    private static let formatVersion: UInt8 = 1
}

extension JSONB: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .jsonb }

    package func encode(into buffer: inout [UInt8]) {
        buffer.append(Self.formatVersion)
        buffer.append(contentsOf: utf8)
    }

    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> JSONB {
        guard oid == PostgresType.jsonb.oid else { throw .unexpectedType(oid, for: "jsonb") }
        guard bytes.first == formatVersion else {
            throw PostgresDecodingError("unknown jsonb version: expected \(formatVersion)")
        }
        return JSONB(utf8: [UInt8](bytes.dropFirst()))
    }
}

/// JSON text of a `text` column, as UTF-8: kept byte for byte and not validated.
package struct JSONText: Sendable, Hashable {
    package var utf8: [UInt8]

    package init(utf8: [UInt8]) {
        self.utf8 = utf8
    }
}

extension JSONText: PostgresEncodable, PostgresDecodable {
    package static var postgresType: PostgresType { .text }

    package func encode(into buffer: inout [UInt8]) {
        buffer.append(contentsOf: utf8)
    }

    package static func decode(
        postgres bytes: UnsafeRawBufferPointer, oid: UInt32
    ) throws(PostgresDecodingError) -> JSONText {
        guard oid == PostgresType.text.oid else { throw .unexpectedType(oid, for: "text") }
        return JSONText(utf8: [UInt8](bytes))
    }
}
