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

    /// The `appAccountToken` of apps that set none of their own. It is the same for all their users, so it does not
    /// identify one.
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

/// A union-find of keys. The key of a group is its smallest, so that it does not depend on the order of joins.
struct KeyGroups {
    private var parents: [CustomerKey: CustomerKey] = [:]

    /// Returns the key of the group that the given key is part of.
    mutating func group(of key: CustomerKey) -> CustomerKey {
        var root = key
        while let parent = parents[root] { root = parent }
        var step = key
        // Path compression.
        while step != root, let parent = parents[step] {
            parents[step] = root
            step = parent
        }
        return root
    }

    mutating func join(_ left: CustomerKey, _ right: CustomerKey) {
        let (left, right) = (group(of: left), group(of: right))
        if left != right { parents[max(left, right)] = min(left, right) }
    }
}
