import Glibc

/// Searches with the C library: comparing thousands of bytes one by one takes longer than all other processing of them.
extension ArraySlice<UInt8> {
    /// Returns the index of the first byte with this value; nil if there is none.
    package func firstIndex(ofByte byte: UInt8) -> Int? {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, let found = memchr(start, Int32(byte), bytes.count) else { return nil }
            return startIndex + (UnsafeRawPointer(found) - start)
        }
    }

    /// Returns true if both slices contain the same bytes, regardless of their indices.
    package func hasSameBytes(as other: ArraySlice<UInt8>) -> Bool {
        count == other.count
            && withUnsafeBytes { left in
                other.withUnsafeBytes { right in
                    guard let start = left.baseAddress, let otherStart = right.baseAddress else { return true }
                    return memcmp(start, otherStart, left.count) == 0
                }
            }
    }
}
