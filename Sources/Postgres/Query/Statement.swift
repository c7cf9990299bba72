/// SQL known at compile time, prepared once per connection under its name.
///
/// Both parts are `StaticString`s, so SQL can never be built from data. Statements of the same name must have the same
/// SQL: the server rejects the second one on a connection that has prepared the first (SQLSTATE 42P05).
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
    /// True when both hold the same bytes. Equal addresses, the usual case, need no comparison.
    fileprivate func equals(_ other: StaticString) -> Bool {
        withUTF8Buffer { left in
            other.withUTF8Buffer { right in
                left.count == right.count && (left.baseAddress == right.baseAddress || left.elementsEqual(right))
            }
        }
    }

    /// The literal as a C string, valid for the life of the program.
    var cString: UnsafePointer<CChar> {
        UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
