import Encoding
import Testing

@testable import Simulation

@Suite("A folded change feed is compared with the books")
struct FeedFoldTests {
    /// A renewed subscription of the simulator, and a one-time purchase without an end.
    private static let simulation: PlaySimulation = {
        var settings = PlayStoryteller.Settings()
        settings.stories = [.renewals, .oneTimePurchase]
        return PlaySimulation(settings, count: 2)
    }()

    private static let books = simulation.books(isTest: false)

    /// After all stories.
    private static let now = Instant(iso8601: "2026-11-01T00:00:00.000Z")!

    /// The changes that a server publishes which learns of each period when it begins.
    private static let feed: [FeedChange] = {
        var changes: [FeedChange] = []
        func publish(
            _ kind: FeedChange.Kind?, _ subscription: String, _ at: Instant, _ product: String?, until: Instant? = nil
        ) {
            changes.append(
                FeedChange(
                    number: Int64(changes.count + 1), kind: kind, subscription: subscription, at: at,
                    isByClock: kind == .closed, productId: product, until: until))
        }
        for (subscription, book) in books.sorted(by: { $0.key < $1.key }) {
            for (index, period) in book.spans.enumerated() {
                publish(
                    index == 0 ? .opened : .extended, subscription, period.span.lowerBound, period.product.id,
                    until: period.span.upperBound)
                publish(nil, subscription, period.span.lowerBound, nil)
            }
            guard let last = book.spans.last, last.span.upperBound < .latest else { continue }
            publish(.closed, subscription, last.span.upperBound, last.product.id)
        }
        return changes
    }()

    private static func differences(_ feed: some Sequence<FeedChange>) -> [String] {
        var fold = FeedFold()
        for change in feed { fold.add(change) }
        return fold.differences(from: books, at: now) { simulation.storyteller.place(ofToken: $0) != nil }
    }

    /// The changes with new numbers, without gaps.
    private static func numbered(_ feed: [FeedChange]) -> [FeedChange] {
        feed.enumerated().map { index, change in
            FeedChange(
                number: Int64(index + 1), kind: change.kind, subscription: change.subscription, at: change.at,
                isByClock: change.isByClock, productId: change.productId, until: change.until)
        }
    }

    @Test("the feed of a server that knows everything has no differences")
    func right() {
        #expect(Self.feed.count > 10)
        #expect(Self.feed.contains { $0.until == .latest })
        #expect(Self.differences(Self.feed) == [])
    }

    @Test("a change that is missing is a difference, whichever it is")
    func dropped() {
        for index in Self.feed.indices.dropLast() {
            var feed = Self.feed
            feed.remove(at: index)

            #expect(Self.differences(feed).contains("change \(index + 2) follows change \(index)"))
        }
    }

    @Test("a change of access that was never published is a difference")
    func unpublished() {
        // Only the last of the extensions before an end shows by itself: what comes after another states a later end.
        for index in Self.feed.indices where [.opened, .closed].contains(Self.feed[index].kind) {
            var feed = Self.feed
            feed.remove(at: index)

            #expect(!Self.differences(Self.numbered(feed)).isEmpty, "\(Self.feed[index])")
        }
    }

    @Test("another end, product, subscription or instant in a change is a difference")
    func altered() {
        for index in Self.feed.indices {
            let change = Self.feed[index]
            guard change.kind != nil else { continue }
            var feeds: [[FeedChange]] = []
            func alter(_ alter: (inout FeedChange) -> Void) {
                var feed = Self.feed
                alter(&feed[index])
                feeds.append(feed)
            }
            alter { $0.productId = "other" }
            alter {
                $0 = FeedChange(
                    number: change.number, kind: change.kind, subscription: change.subscription + "x", at: change.at,
                    isByClock: change.isByClock, productId: change.productId, until: change.until)
            }
            if let until = change.until {
                alter { $0.until = until == .latest ? Self.now : until.advanced(byMilliseconds: 1) }
            } else {
                alter {
                    $0 = FeedChange(
                        number: change.number, kind: change.kind, subscription: change.subscription,
                        at: change.at.advanced(byMilliseconds: 1), isByClock: true, productId: change.productId)
                }
            }
            for feed in feeds { #expect(!Self.differences(feed).isEmpty, "\(feed[index])") }
        }
    }

    @Test("a purchase token that continues another one is no subscription of its own")
    func continued() throws {
        var settings = PlayStoryteller.Settings()
        settings.stories = [.tokenChain]
        let chain = PlaySimulation(settings, count: 1)
        let tokens = try #require(chain.storyteller.story(at: 0).subscriptions.first).tokens.map(\.token)
        var fold = FeedFold()
        for (index, token) in [tokens[1], "another app's"].enumerated() {
            fold.add(
                FeedChange(
                    number: Int64(index + 1), kind: .opened, subscription: token, at: Self.now, isByClock: false,
                    productId: "plus:monthly", until: .latest))
        }

        let differences = fold.differences(from: chain.books(isTest: false), at: Self.now) {
            chain.storyteller.place(ofToken: $0) != nil
        }

        #expect(differences == ["\(tokens[1]): no subscription has this id"])
    }

    @Test("a change is read from its JSON; an end of null is none")
    func json() throws {
        let text = """
            [{"number":7,"kind":"opened","at":"2025-01-01T00:00:00.000Z","cause":"clock","originalTransactionId":"a",\
            "productId":"p","until":null},{"number":8,"kind":"closed","at":"2025-01-02T00:00:00.000Z","cause":"event",\
            "position":3,"originalTransactionId":"a","productId":"p"},{"number":9,"kind":"renewal_switched",\
            "at":"2025-01-02T00:00:00.000Z","cause":"event","position":3,"originalTransactionId":"a"},\
            {"number":"x","kind":"opened","at":"2025-01-02T00:00:00.000Z","originalTransactionId":"a"},\
            {"number":10,"kind":"opened","at":"2025-01-02T00:00:00.000Z","originalTransactionId":"a","until":"soon"}]
            """
        let changes = try JSONDocument(Array(text.utf8)).root.elements.map { FeedChange($0) }

        #expect(changes.map { $0?.kind } == [.opened, .closed, nil, nil, nil])
        #expect(changes.map { $0?.number } == [7, 8, 9, nil, nil])
        #expect(changes[0]?.until == .latest)
        #expect(changes[0]?.isByClock == true && changes[1]?.isByClock == false)
        #expect(changes[1]?.until == nil)
    }
}
