/// A type whose values can be sent to the server as parameters.
package protocol PostgresEncodable: Sendable {
    static var postgresType: PostgresType { get }

    /// Appends the value in the server's binary format (big endian), without its length word.
    func encode(into buffer: inout [UInt8])
}

/// A type whose values can be read from a result column.
package protocol PostgresDecodable: Sendable {
    /// Reads the server's binary format.
    ///
    /// - Parameters:
    ///   - bytes: The column's bytes, valid only during the call.
    ///   - oid: The column's type as reported by the server.
    /// - Throws: ``PostgresDecodingError`` when the type differs or the bytes are not a valid value of it.
    static func decode(postgres bytes: UnsafeRawBufferPointer, oid: UInt32) throws(PostgresDecodingError) -> Self
}

/// The reason why a column could not be decoded. Contains type numbers and lengths, never a value.
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

    /// Reads an integer from a buffer whose length the caller has checked.
    init(bigEndianBytes bytes: UnsafeRawBufferPointer) {
        self.init(bigEndian: bytes.loadUnaligned(as: Self.self))
    }
}
