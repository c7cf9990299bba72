/// A JSON value in canonical form: keys sorted by bytes, the last of duplicate keys, no white space.
///
/// Holds fields that are stored without being interpreted. Creating one makes the value safe for PostgreSQL's `jsonb`,
/// which then stores it unchanged: NUL characters and lone surrogates become replacement characters, numbers that a
/// decimal type might reject or change become strings of their digits, and values nested deeper than ``depthMax``
/// become null.
@usableFromInline
package struct CanonicalJSON: Sendable, Hashable {
    @usableFromInline package let utf8: [UInt8]

    /// Bounds the recursion, and with it the stack.
    static let depthMax = 32
    private static let numberDigitsMax = 30

    package init(_ value: JSONValue) {
        self.init(value, levels: Self.depthMax)
    }

    /// Reads a value that this type wrote, possibly as part of another canonical object.
    package init(stored value: JSONValue) {
        self.init(value, levels: 2 * Self.depthMax)
    }

    private init(_ value: JSONValue, levels: Int) {
        var writer = JSONWriter()
        Self.write(value, levels: levels, to: &writer)
        utf8 = writer.bytes
    }

    /// Creates an object with the given members.
    package init(members: [(key: String, value: CanonicalJSON)]) {
        var writer = JSONWriter()
        Self.write(members: members, to: &writer) { $1.value(rawJSON: $0.utf8) }
        utf8 = writer.bytes
    }

    private static func write(_ value: JSONValue, levels: Int, to writer: inout JSONWriter) {
        guard levels > 0 else {
            writer.value(rawJSON: "null")
            return
        }
        if value.isObject {
            let members = value.members.map { (key: $0.key.repairedString, value: $0.value) }
            write(members: members, to: &writer) { write($0, levels: levels - 1, to: &$1) }
        } else if value.isArray {
            writer.array(value.elements) { write($1, levels: levels - 1, to: &$0) }
        } else if value.isString {
            writer.value(value.repairedString)
        } else if let number = value.numberText {
            if isPlain(number) {
                writer.value(rawJSON: number)
            } else {
                writer.value(number)
            }
        } else {
            writer.value(rawJSON: value.bool.map { $0 ? "true" : "false" } ?? "null")
        }
    }

    private static func write<Value>(
        members: [(key: String, value: Value)], to writer: inout JSONWriter,
        _ write: (Value, inout JSONWriter) -> Void
    ) {
        let order = members.indices.sorted { left, right in
            let (leftKey, rightKey) = (members[left].key.utf8, members[right].key.utf8)
            return leftKey.elementsEqual(rightKey) ? left < right : leftKey.lexicographicallyPrecedes(rightKey)
        }
        writer.object { writer in
            for (place, index) in order.enumerated() {
                let key = members[index].key
                if place + 1 < order.count, members[order[place + 1]].key.utf8.elementsEqual(key.utf8) { continue }
                writer.key(key)
                write(members[index].value, &writer)
            }
        }
    }

    /// True for a number without an exponent that a decimal type stores unchanged.
    private static func isPlain(_ number: String) -> Bool {
        number.utf8.count <= numberDigitsMax && !number.utf8.contains(UInt8(ascii: "e"))
            && !number.utf8.contains(UInt8(ascii: "E"))
            // Decimal types have no negative zero.
            && (!number.hasPrefix("-") || number.utf8.contains { (UInt8(ascii: "1")...UInt8(ascii: "9")).contains($0) })
    }
}

extension JSONValue {
    /// The string, with invalid Unicode and NUL replaced by replacement characters.
    package var repairedString: String {
        let text = String(decoding: unescapedBytes, as: UTF8.self)
        return text.utf8.contains(0) ? String(text.map { $0 == "\0" ? "\u{FFFD}" : $0 }) : text
    }
}

extension JSONWriter {
    package mutating func member(_ key: StaticString, _ value: CanonicalJSON?) {
        guard let value else { return }
        self.key(key)
        self.value(rawJSON: value.utf8)
    }
}
