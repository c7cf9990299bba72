import Encoding

/// A field of a transaction or of renewal info.
package struct Field: Sendable, ExpressibleByStringLiteral {
    package enum Kind: Sendable {
        /// A field of signed payloads, with the same name.
        case signed
        /// A signed id, which may also be a number.
        case identifier
        /// A signed UUID, kept in lower case.
        case accountToken
        /// A signed field about the revocation, which a later report can withdraw by omitting it.
        case revocation
        /// A field of unsigned receipts only.
        case unsigned
        /// A flag that the App Store does not send: the reader of a body computes it.
        case derived
        /// A field that only orders of Google and its answers about plans state.
        case ofOrder
        /// A field that no report states: the fold finds it in several of them.
        case folded
    }

    /// The name in signed payloads and in canonical JSON; in snake case, the name of the column.
    package let name: StaticString
    package let kind: Kind

    private init(_ name: StaticString, _ kind: Kind) {
        self.name = name
        self.kind = kind
    }

    package init(stringLiteral name: StaticString) {
        self.init(name, .signed)
    }

    static func identifier(_ name: StaticString) -> Field { Field(name, .identifier) }
    static func accountToken(_ name: StaticString) -> Field { Field(name, .accountToken) }
    static func revocation(_ name: StaticString) -> Field { Field(name, .revocation) }
    static func unsigned(_ name: StaticString) -> Field { Field(name, .unsigned) }
    static func derived(_ name: StaticString) -> Field { Field(name, .derived) }

    static func ofOrder(_ name: StaticString) -> Field { Field(name, .ofOrder) }
    static func folded(_ name: StaticString) -> Field { Field(name, .folded) }

    /// True if signed payloads contain it.
    package var isSigned: Bool {
        switch kind {
        case .signed, .identifier, .accountToken, .revocation: true
        case .unsigned, .derived, .ofOrder, .folded: false
        }
    }

    /// True if it is a column of the projection.
    package var isProjected: Bool { kind != .derived }
}

/// Reads, writes or merges the fields of a transaction or of renewal info, whose lists of fields call it.
///
/// A writer takes the value from `source`, a reader sets it in `target`, and a merger does both.
package protocol FieldVisitor {
    mutating func visit(_ field: Field, _ source: String?, _ target: inout String?)
    /// A whole number that fits in 32 bits.
    mutating func visit(_ field: Field, _ source: Int?, _ target: inout Int?)
    mutating func visit(_ field: Field, _ source: Int64?, _ target: inout Int64?)
    mutating func visit(_ field: Field, _ source: Bool?, _ target: inout Bool?)
    mutating func visit(_ field: Field, _ source: Instant?, _ target: inout Instant?)
    mutating func visit(_ field: Field, _ source: [String], _ target: inout [String])
    /// - Parameter absent: The meaning of an absent field.
    mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool)
}
