/// A value that can be sent to the server as a parameter.
package protocol PostgresEncodable: Sendable {
    static var postgresType: PostgresType { get }

    /// Appends the value in the server's binary format (big endian), without the length word before it.
    func encode(into buffer: inout [UInt8])
}

/// A value that can be read from a column of a result.
package protocol PostgresDecodable: Sendable {
    /// Reads the server's binary format.
    ///
    /// - Parameters:
    ///   - bytes: The column's bytes, valid only during the call.
    ///   - oid: The column's type, as the server named it.
    /// - Throws: ``PostgresDecodingError`` when the type is another one or the bytes are no value of it.
    static func decode(postgres bytes: UnsafeRawBufferPointer, oid: UInt32) throws(PostgresDecodingError) -> Self
}

/// Why a column could not be read. Holds type numbers and lengths, never a value.
package struct PostgresDecodingError: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }

    static func unexpectedType(_ oid: UInt32, for wanted: String) -> PostgresDecodingError {
        PostgresDecodingError("type \(oid) cannot be read as \(wanted)")
    }

    static func unexpectedLength(_ length: Int, for wanted: String) -> PostgresDecodingError {
        PostgresDecodingError("\(length) bytes cannot be read as \(wanted)")
    }
}

extension FixedWidthInteger {
    func appendBigEndian(to buffer: inout [UInt8]) {
        withUnsafeBytes(of: bigEndian) { buffer.append(contentsOf: $0) }
    }

    /// Reads a whole buffer, whose length the caller has compared with the integer's size.
    init(bigEndianBytes bytes: UnsafeRawBufferPointer) {
        self.init(bigEndian: bytes.loadUnaligned(as: Self.self))
    }
}
