import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

/// A message only leads to a question: the answers of the API are the evidence.
@Suite("Explanations of Google Play are those of the storyteller's books, before and after each message")
struct PlayExplanationTests {
    private static let products = Product.allOnGooglePlay(of: testApp.bundleId)
    private static let mapping = Dictionary(uniqueKeysWithValues: products.map { ($0.id, $0.entitlements) })
    private static let catalog = ProductCatalog(
        Dictionary(
            uniqueKeysWithValues: products.filter { $0.kind != .autoRenewable }.map {
                ($0.id, $0.kind == .consumable ? ProductCatalog.Kind.consumable : .nonConsumable)
            }))
    /// Of a chain of many purchases, only some instants are compared after each answer.
    private static let instantsMax = 40

    private func storyteller(_ story: PlayStory) -> PlayStoryteller {
        var settings = PlayStoryteller.Settings()
        settings.seed = TestSeed.value
        settings.stories = [story]
        return PlayStoryteller(settings)
    }

    @Test("of every story", arguments: PlayStory.allCases.filter { !$0.isEndDatedByAnswer })
    func stories(_ story: PlayStory) throws {
        var compared = 0
        for number in 0..<TestScale.count(1, full: 2) {
            let rendered = storyteller(story).story(at: number)
            var generator = TestSeed.generator(number)
            for life in AskedLife.all(of: rendered) {
                var asked = AskedPurchases(life)
                for occasion in life.occasions(handIns: rendered.handIns) {
                    let answeredAt = try asked.ask(after: occasion)
                    let instants = life.access.instants(and: answeredAt).shuffled(using: &generator)
                    compared += try check(
                        asked, at: instants.prefix(Self.instantsMax), life.books(after: occasion),
                        "\(story.name) \(number), seed \(TestSeed.value), after \(occasion)")
                }
            }
        }
        #expect(compared > 5)
    }

    @Test(
        "account hold and a pause are named as what follows a period, with the answer that says it and what is next",
        arguments: [
            (PlayStory.holdEnded, ": the renewal failed, and the store put the subscription on hold"),
            (.holdWithoutGrace, ": the renewal failed, and the store put the subscription on hold"),
            (.paused, ": the customer paused the subscription until "),
        ])
    func suspensions(_ story: PlayStory, _ words: String) throws {
        let rendered = storyteller(story).story(at: 0)
        let life = try #require(AskedLife.all(of: rendered).first)
        var asked = AskedPurchases(life)
        var found = 0
        for occasion in life.occasions(handIns: rendered.handIns) {
            let answeredAt = try asked.ask(after: occasion)
            let explained = ExplainedCustomers(
                asked.facts, links: CustomerLinks([Int64: LinkStatement]()), policy: .shared, products: Self.catalog,
                entitlements: Self.mapping)
            let owner = try #require(explained.customers.ownership.first?.owner)
            for name in life.entitlements {
                let explanation = explained.explanation(of: name, for: owner, at: answeredAt)
                guard let decisive = explanation.because.first, decisive.text.contains(words) else { continue }
                found += 1
                #expect(decisive.positions.count == 1, "seed \(TestSeed.value): \(explanation.sentence)")
                #expect(!explanation.couldChange.isEmpty, "seed \(TestSeed.value): \(explanation.sentence)")
            }
        }
        #expect(found > 0)
    }

    /// Returns how many explanations were compared.
    private func check(
        _ asked: AskedPurchases, at instants: ArraySlice<Instant>, _ books: AccessBook, _ message: String
    ) throws -> Int {
        let explained = ExplainedCustomers(
            asked.facts, links: CustomerLinks([Int64: LinkStatement]()), policy: .shared, products: Self.catalog,
            entitlements: Self.mapping)
        // A pending purchase is a subscription of its own, until it is paid and continues another one.
        let first = ByteString(asked.life.purchaseToken)
        guard let owner = explained.customers.ownership.first(where: { $0.originalTransactionId == first })?.owner
        else {
            #expect(books.products.isEmpty, "no owner: \(message)")
            return 0
        }
        for instant in instants {
            for name in asked.life.entitlements {
                let reason = books.reason(for: name, at: instant)
                let expected = ExpectedExplanation(
                    reason: reason, evidence: reason.flatMap(asked.evidence),
                    otherwise: asked.life.isConsumable ? [.noAccessKind, .noPurchase] : [.noPurchase],
                    isSame: ExpectedExplanation.isSameOrder)
                expected.check(explained.explanation(of: name, for: owner, at: instant), message)
            }
        }
        return instants.count * asked.life.entitlements.count
    }
}
