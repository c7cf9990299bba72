/// An id by which a customer can be known, within one stream.
package struct CustomerKey: Sendable, Hashable, Comparable {
    package enum Kind: String, Sendable, Hashable, CaseIterable {
        /// The backend's own id. The order of the cases is that in which an id is looked up.
        case link
        /// An `appAccountToken`, in lower case: Apple promises no case.
        case account
        /// An `appTransactionId`: one per Apple Account, of family members too.
        case appTransaction = "app_transaction"
        /// An `originalTransactionId`.
        case subscription
    }

    package let kind: Kind
    package let id: ExactText

    package init(_ kind: Kind, _ id: String) {
        self.kind = kind
        self.id = ExactText(kind == .account ? id.lowercased() : id)
    }

    package static func < (left: CustomerKey, right: CustomerKey) -> Bool {
        (left.kind.rawValue, left.id) < (right.kind.rawValue, right.id)
    }
}

/// The name of a group of keys that belong together: the smallest `originalTransactionId` among them by bytes, so that
/// it does not depend on the order of events. Groups without one are named by their smallest other key.
package struct CustomerId: Sendable, Hashable, Comparable {
    package let text: ExactText

    /// A name that was stored.
    package init(stored text: String) {
        self.text = ExactText(text)
    }

    /// The name of the group of this key alone.
    package init(_ key: CustomerKey) {
        text = key.kind == .subscription ? key.id : ExactText(":\(key.kind.rawValue):\(key.id)")
    }

    private var isLine: Bool { text.text.utf8.first != UInt8(ascii: ":") }

    package static func < (left: CustomerId, right: CustomerId) -> Bool {
        left.isLine == right.isLine ? left.text < right.text : left.isLine
    }
}

/// Joins groups of keys; what is joined has the smallest name.
package struct CustomerGroups: Sendable {
    private var parents: [CustomerId: CustomerId] = [:]

    package init() {}

    /// The name of the group that this one is part of by now.
    package mutating func name(of id: CustomerId) -> CustomerId {
        var root = id
        while let parent = parents[root] { root = parent }
        var step = id
        // Makes the way short for those who come next.
        while step != root, let parent = parents[step] {
            parents[step] = root
            step = parent
        }
        return root
    }

    package mutating func join(_ left: CustomerId, _ right: CustomerId) {
        let (left, right) = (name(of: left), name(of: right))
        if left != right { parents[max(left, right)] = min(left, right) }
    }

    package mutating func join(_ left: CustomerKey, _ right: CustomerKey) {
        join(CustomerId(left), CustomerId(right))
    }
}
