/// A string that is compared and ordered by its bytes. Swift's `String` treats canonically equivalent spellings as
/// equal, which are distinct keys in a database.
@usableFromInline
package struct ByteString: Sendable, Hashable, Comparable, CustomStringConvertible {
    @usableFromInline package let text: String

    package init(_ text: String) {
        self.text = text
    }

    @usableFromInline package var description: String { text }

    @usableFromInline
    package static func == (left: ByteString, right: ByteString) -> Bool {
        let isEqual = left.text.utf8.withContiguousStorageIfAvailable { left in
            right.text.utf8.withContiguousStorageIfAvailable { right in
                left.count == right.count && left.elementsEqual(right)
            }
        }
        return (isEqual ?? nil) ?? left.text.utf8.elementsEqual(right.text.utf8)
    }

    @usableFromInline
    package static func < (left: ByteString, right: ByteString) -> Bool {
        left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
    }

    @usableFromInline
    package func hash(into hasher: inout Hasher) {
        // One call for all bytes: hashing byte by byte costs ten times as much.
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
