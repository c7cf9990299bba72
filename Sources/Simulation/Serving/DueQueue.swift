import Encoding

/// What is to be done at a time of a simulated clock.
protocol DueItem: Sendable {
    static func precedes(_ left: Self, _ right: Self) -> Bool
    var at: Instant { get }
}

/// What waits for its time on a simulated clock: a binary heap, whose first item is the one that is due first.
struct DueQueue<Item: DueItem>: Sendable {
    private var items: [Item] = []

    /// Nil if none waits.
    var first: Item? { items.first }

    mutating func insert(_ item: Item) {
        items.append(item)
        var child = items.count - 1
        while child > 0, Item.precedes(items[child], items[(child - 1) / 2]) {
            items.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes the first item if it is due until the instant.
    mutating func takeFirst(dueBy now: Instant) -> Item? {
        guard let first = items.first, first.at <= now else { return nil }
        items.swapAt(0, items.count - 1)
        items.removeLast()
        var parent = 0
        while true {
            let children = [2 * parent + 1, 2 * parent + 2].filter { $0 < items.count }
            guard let least = children.min(by: { Item.precedes(items[$0], items[$1]) }),
                Item.precedes(items[least], items[parent])
            else { return first }
            items.swapAt(parent, least)
            parent = least
        }
    }
}
