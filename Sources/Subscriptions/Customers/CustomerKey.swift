import Encoding

/// An id that identifies a customer within a stream.
package struct CustomerKey: Sendable, Hashable, Comparable {
    /// What an id is. The same text can be ids of several kinds, of different customers.
    package enum Kind: String, Sendable, Hashable, CaseIterable {
        /// The backend's own id.
        case link
        /// An `appAccountToken`, lower-cased because Apple does not guarantee its case.
        case account
        /// An `appTransactionId`: one per Apple Account, family members included.
        case appTransaction = "app_transaction"
        /// An `originalTransactionId`.
        case subscription
    }

    /// The `appAccountToken` of apps that set none of their own. It is the same for all their users, so it identifies
    /// nobody.
    package static let nilAccountToken = "00000000-0000-0000-0000-000000000000"

    package let kind: Kind
    package let id: ByteString

    package init(_ kind: Kind, _ id: String) {
        self.kind = kind
        self.id = ByteString(kind == .account ? id.lowercased() : id)
    }

    package static func < (left: CustomerKey, right: CustomerKey) -> Bool {
        (left.kind.rawValue, left.id) < (right.kind.rawValue, right.id)
    }
}

/// The id of a group of keys that belong to one customer: the bytewise smallest `originalTransactionId` in it, so that
/// it does not depend on the order of events. A group without one is identified by its smallest other key.
package struct CustomerGroupID: Sendable, Hashable, Comparable {
    package let text: ByteString

    /// Reads a stored id.
    package init(stored text: String) {
        self.text = ByteString(text)
    }

    /// The id of a group that consists of this key.
    package init(_ key: CustomerKey) {
        text = key.kind == .subscription ? key.id : ByteString(":\(key.kind.rawValue):\(key.id)")
    }

    private var isSubscription: Bool { text.text.utf8.first != UInt8(ascii: ":") }

    package static func < (left: CustomerGroupID, right: CustomerGroupID) -> Bool {
        left.isSubscription == right.isSubscription ? left.text < right.text : left.isSubscription
    }
}

/// A union-find of groups of keys; a joined group has the smallest id of its parts.
package struct CustomerGroups: Sendable {
    private var parents: [CustomerGroupID: CustomerGroupID] = [:]

    package init() {}

    /// Returns the id of the group that the given group is currently part of.
    package mutating func name(of id: CustomerGroupID) -> CustomerGroupID {
        var root = id
        while let parent = parents[root] { root = parent }
        var step = id
        // Path compression.
        while step != root, let parent = parents[step] {
            parents[step] = root
            step = parent
        }
        return root
    }

    package mutating func join(_ left: CustomerGroupID, _ right: CustomerGroupID) {
        let (left, right) = (name(of: left), name(of: right))
        if left != right { parents[max(left, right)] = min(left, right) }
    }

    package mutating func join(_ left: CustomerKey, _ right: CustomerKey) {
        join(CustomerGroupID(left), CustomerGroupID(right))
    }
}
