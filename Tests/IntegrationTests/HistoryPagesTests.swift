import Testing

@testable import Projector

@Suite("The subscriptions of a log in pages, each with all of its events")
struct HistoryPagesTests {
    private static let mentions: [(Int64, [String])] = [
        (1, ["a"]), (2, ["b"]), (3, ["c", "a"]), (4, ["b"]), (5, ["d"]), (6, ["c"]), (7, ["e", "e"]), (8, []),
    ]

    /// The positions of each page.
    private static func pages(
        _ index: MentionIndex, eventsMax: Int
    ) -> [(subscriptions: Set<UInt64>, positions: [Int64])] {
        var pages = HistoryPages(index, eventsMax: eventsMax)
        var all: [(subscriptions: Set<UInt64>, positions: [Int64])] = []
        while let page = pages.next() { all.append((page.subscriptions, page.positions.sorted())) }
        return all
    }

    private static func index(parts: UInt64 = 1, joined: [(String, String)] = []) -> MentionIndex {
        var index = MentionIndex(part: 0, of: parts, seed: 0)
        for (one, other) in joined { index.join(one, other) }
        return index
    }

    /// The order in which connections read the log does not matter.
    private static func fill(_ index: inout MentionIndex) {
        for (position, subscriptions) in mentions.reversed() { index.add(position, about: subscriptions) }
        index.sort()
    }

    @Test("subscriptions come in the order of their first events, with all of their events, until a page is full")
    func order() {
        var index = Self.index()
        Self.fill(&index)

        #expect(Self.pages(index, eventsMax: 1).map(\.positions) == [[1, 3], [2, 4], [3, 6], [5], [7]])
        #expect(Self.pages(index, eventsMax: 3).map(\.positions) == [[1, 2, 3, 4], [3, 5, 6], [7]])
        #expect(Self.pages(index, eventsMax: 100).map(\.positions) == [[1, 2, 3, 4, 5, 6, 7]])
        #expect(HistoryPages(index, eventsMax: 1).count == 5)
    }

    @Test("purchases that continue each other come together, however they are joined")
    func joined() {
        for joined in [[("a", "d"), ("d", "e")], [("e", "d"), ("a", "e")], [("d", "e"), ("a", "d"), ("e", "a")]] {
            var index = Self.index(joined: joined)
            Self.fill(&index)

            #expect(Self.pages(index, eventsMax: 1).map(\.positions) == [[1, 3, 5, 7], [2, 4], [3, 6]])
            #expect(Set(["a", "d", "e"].map(index.key(of:))).count == 1)
        }
    }

    @Test("each subscription is in one part, with all of its events, and joined ones are in the same")
    func parts() {
        var index = Self.index(parts: 3, joined: [("a", "d")])
        var found: [(subscriptions: Set<UInt64>, positions: [Int64])] = []
        for part in 0..<index.parts {
            index.begin(part)
            Self.fill(&index)
            found += Self.pages(index, eventsMax: 1)
        }

        #expect(found.map(\.positions).sorted { $0[0] < $1[0] } == [[1, 3, 5], [2, 4], [3, 6], [7]])
        #expect(found.reduce(into: Set<UInt64>()) { $0.formUnion($1.subscriptions) }.count == 4)
    }
}
