/// Reads the binary format of a one-dimensional array.
///
/// Source: PostgreSQL, `array_send` in `src/backend/utils/adt/arrayfuncs.c`.
struct ArrayDecoder {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    /// - Parameter bytes: The column's bytes, which must outlive the decoder.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    /// Returns the elements in order; SQL nulls are `nil`. An array without dimensions is empty.
    mutating func elements<T: PostgresDecodable>(of type: T.Type) throws(PostgresDecodingError) -> [T?] {
        let dimensions = try word()
        _ = try word()
        let elementOID = UInt32(bitPattern: try word())
        if dimensions == 0 { return [] }
        guard dimensions == 1 else { throw PostgresDecodingError("array has \(dimensions) dimensions: expected one") }
        let count = Int(try word())
        _ = try word()
        // Every element takes at least its four-byte length word, so a wrong count cannot make us reserve memory for
        // it.
        guard count >= 0, count <= (bytes.count - offset) / 4 else {
            throw PostgresDecodingError("array is shorter than its element count")
        }
        var values: [T?] = []
        values.reserveCapacity(count)
        for _ in 0..<count {
            let length = Int(try word())
            if length == -1 {
                values.append(nil)
                continue
            }
            values.append(try T.decode(postgres: try take(length), oid: elementOID))
        }
        guard offset == bytes.count else { throw PostgresDecodingError("array is longer than its element count") }
        return values
    }

    private mutating func word() throws(PostgresDecodingError) -> Int32 {
        Int32(bigEndianBytes: try take(4))
    }

    private mutating func take(_ count: Int) throws(PostgresDecodingError) -> UnsafeRawBufferPointer {
        guard count >= 0, count <= bytes.count - offset else {
            throw PostgresDecodingError("array ends too early")
        }
        defer { offset += count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count])
    }
}
