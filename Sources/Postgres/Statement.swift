/// SQL known at compile time, prepared once on a connection under its name.
///
/// Both parts are `StaticString`s, so SQL can never be built from data. Two statements of one name must have the same
/// SQL: the server refuses the second one on a connection that has prepared the first (SQLSTATE 42P05).
package struct Statement: Sendable, Hashable {
    let name: StaticString
    let sql: StaticString

    package init(_ name: StaticString, _ sql: StaticString) {
        self.name = name
        self.sql = sql
    }

    package static func == (left: Statement, right: Statement) -> Bool {
        left.name.equals(right.name) && left.sql.equals(right.sql)
    }

    package func hash(into hasher: inout Hasher) {
        name.withUTF8Buffer { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension StaticString {
    /// True when both hold the same bytes. One literal is often one address, which answers most questions at once.
    fileprivate func equals(_ other: StaticString) -> Bool {
        withUTF8Buffer { left in
            other.withUTF8Buffer { right in
                left.count == right.count && (left.baseAddress == right.baseAddress || left.elementsEqual(right))
            }
        }
    }

    /// The literal as C sees it. Valid for the life of the program, and ended by a zero byte.
    var cString: UnsafePointer<CChar> {
        UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
