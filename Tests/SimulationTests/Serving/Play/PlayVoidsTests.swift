import Encoding
import Simulation
import Testing

@Suite("The list of voided purchases of the simulated Google Play")
struct PlayVoidsTests {
    private static let stories: [PlayStory] = [.refundOfNewest, .refundOfOlder, .refundWithoutRevoke, .oneTimePurchase]

    private func rows(_ response: PlayResponse?) -> [[String: Any]] {
        response?.json["voidedPurchases"] as? [[String: Any]] ?? []
    }

    private func list(_ bundle: PlayBundle, _ query: [String: String] = ["type": "1"]) -> PlayResponse? {
        bundle.call("purchases/voidedpurchases", query: query.map { (name: $0.key, value: $0.value) })
    }

    @Test("type 0 is the default and omits subscriptions; a refund without a revocation is in no list")
    func types() throws {
        let bundle = try PlayBundle(Self.stories, count: 4)
        let void = try #require(bundle.play.story(0).voids.first)
        bundle.play.now = void.seenAt

        let all = rows(list(bundle)).compactMap { $0["orderId"] as? String }

        #expect(all.contains(void.orderId))
        #expect(!rows(list(bundle, [:])).contains { $0["orderId"] as? String == void.orderId })
        bundle.play.now = void.seenAt.advanced(byMilliseconds: -1)
        #expect(!rows(list(bundle)).contains { $0["orderId"] as? String == void.orderId })
        #expect(bundle.play.story(2).voids.isEmpty)
    }

    @Test("the window is the time at which Google saw the void, of at most 30 days")
    func window() throws {
        let bundle = try PlayBundle(Self.stories)
        let void = try #require(bundle.play.story(0).voids.first)
        bundle.play.now = void.seenAt.advanced(by: .seconds(30 * 86_400))
        func isFound(_ query: [String: String]) -> Bool {
            !rows(list(bundle, query.merging(["type": "1"]) { $1 })).isEmpty
        }
        let seen = void.seenAt.milliseconds

        #expect(isFound([:]) && isFound(["startTime": "\(seen)"]) && !isFound(["startTime": "\(seen + 1)"]))
        #expect(isFound(["endTime": "\(seen)"]) && !isFound(["endTime": "\(seen - 1)"]))
        #expect(list(bundle, ["startTime": "\(seen / 1000)"])?.problem == "403 forbidden")
        #expect(list(bundle, ["type": "2"])?.problem == "400 invalidValue")
        bundle.play.now = bundle.play.now.advanced(byMilliseconds: 1)
        #expect(!isFound([:]) && !isFound(["startTime": "\(seen - 86_400_000)"]))
    }

    @Test("pages continue with a token, which belongs to the other parameters")
    func pages() throws {
        let bundle = try PlayBundle([.refundOfNewest], count: 60) { $0.voidsPerPage = 2 }
        let seen = (0..<60).flatMap { bundle.play.story($0).voids }.map(\.seenAt).sorted()
        bundle.play.now = try #require(seen.dropFirst(40).first)
        let start = "\(bundle.play.now.milliseconds - 25 * 86_400_000)"
        var found: [String] = []
        var page = list(bundle, ["type": "1", "startTime": start])
        var pages = 1
        while let next = (page?.json["tokenPagination"] as? [String: String])?["nextPageToken"] {
            found += rows(page).compactMap { $0["orderId"] as? String }
            page = list(bundle, ["type": "1", "startTime": start, "token": next])
            pages += 1
            #expect(list(bundle, ["type": "0", "startTime": start, "token": next])?.problem == "400 invalidValue")
        }
        found += rows(page).compactMap { $0["orderId"] as? String }

        let expected = (0..<60).flatMap { bundle.play.story($0).voids }.filter {
            $0.seenAt <= bundle.play.now && $0.seenAt.milliseconds >= Int64(start)!
        }
        #expect(found.count == expected.count && Set(found) == Set(expected.map(\.orderId)) && pages > 1)
        #expect(expected.sorted { $0.seenAt < $1.seenAt }.map(\.orderId) == found)
    }

    @Test("partial refunds by quantity are listed on request")
    func partial() throws {
        let bundle = try PlayBundle([.oneTimePurchase])
        let void = try #require(bundle.story.oneTimePurchases[1].voids.first)
        bundle.play.now = void.seenAt

        #expect(!rows(list(bundle)).contains { $0["orderId"] as? String == void.orderId })
        let partial = rows(list(bundle, ["includeQuantityBasedPartialRefund": "true"])).first {
            $0["orderId"] as? String == void.orderId
        }
        #expect(partial?["voidedQuantity"] as? Int == 2)
    }
}
