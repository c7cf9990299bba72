/// The subscriptions of an indexed part of the log, some at a time, each with the positions of all events about it.
///
/// Subscriptions whose first events are near each other come together: most of their other events are, too, so a page reads
/// few blocks of a log that does not fit into memory.
struct HistoryPages {
    struct Page: Sendable {
        /// By ``MentionIndex/key(of:)``.
        fileprivate(set) var subscriptions: Set<UInt64> = []
        fileprivate(set) var positions: Set<Int64> = []
    }

    private let mentions: [MentionIndex.Mention]
    private let eventsMax: Int
    /// The first mention of each subscription that is left, in order of position.
    private var starts: ArraySlice<Int>

    /// - Parameters:
    ///   - index: Sorted.
    ///   - eventsMax: A page has at most so many events, apart from those of its last subscription.
    init(_ index: MentionIndex, eventsMax: Int) {
        let mentions = index.mentions
        self.mentions = mentions
        self.eventsMax = eventsMax
        let firsts = mentions.indices.filter { $0 == 0 || mentions[$0 - 1].subscription != mentions[$0].subscription }
        starts = ArraySlice(firsts.sorted { (mentions[$0].position, $0) < (mentions[$1].position, $1) })
    }

    /// The number of subscriptions that are left.
    var count: Int { starts.count }

    /// Removes and returns the next page; nil if no subscription is left.
    mutating func next() -> Page? {
        var page = Page()
        while page.positions.count < eventsMax, let start = starts.popFirst() {
            let subscription = mentions[start].subscription
            page.subscriptions.insert(subscription)
            for mention in mentions[start...].prefix(while: { $0.subscription == subscription }) {
                page.positions.insert(mention.position)
            }
        }
        return page.subscriptions.isEmpty ? nil : page
    }
}
