/// Values as bytes, each with its length before it, so that no two sequences of values have the same bytes.
///
/// A length has 4 bytes in big-endian order; that of an absent value is -1. Function `chain_field` in schema.sql does
/// the same.
struct ChainFields {
    private(set) var bytes: [UInt8] = []

    /// - Parameter purpose: The first value: what the bytes are, with the version of their form.
    init(_ purpose: String) {
        append(purpose)
    }

    mutating func append(_ value: [UInt8]?) {
        append(bigEndian: Int32(value?.count ?? -1))
        bytes += value ?? []
    }

    mutating func append(_ text: String?) {
        append(text.map { Array($0.utf8) })
    }

    mutating func append(_ number: Int64) {
        append(bigEndian: Int32(8))
        append(bigEndian: number)
    }

    private mutating func append(bigEndian number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }
}
