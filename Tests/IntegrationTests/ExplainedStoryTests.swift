import AppStore
import Encoding
import EventLog
import PlayStore
import Simulation
import Subscriptions
import TestSupport
import Testing

/// The whole way of an answer: the log, its projections, the facts as they were known, and HTTP.
@Suite("Explanations over HTTP are those of the storyteller's books, before and after each notification")
struct ExplainedStoryTests {
    /// The most instants about which a customer is asked after an event, besides the time of the event. The tests of the
    /// fold compare all instants.
    private static let instantsMax = TestScale.count(0, full: 2)

    /// What the books contain about the purchases of one customer, by the events received until a time.
    private struct Books {
        /// One for each subscription.
        let parts: [AccessBook]
        let evidence: (AccessReason) -> Int?
        /// Of products that give no access.
        var hasConsumable = false
        var isSame: (String, String) -> Bool = { $0 == $1 }

        /// Whether nothing is paid yet.
        var isEmpty: Bool { parts.allSatisfy(\.products.isEmpty) }

        /// Two purchases of one period, as after a restore, are equally good reasons.
        func expected(_ entitlement: String, at instant: Instant) -> [ExpectedExplanation] {
            let reason = AccessBook(of: parts).reason(for: entitlement, at: instant)
            let equal = parts.compactMap { $0.reason(for: entitlement, at: instant) }.filter { $0.kind == reason?.kind }
            let reasons: [AccessReason?] = [reason] + (reason == nil ? [] : equal)
            return reasons.map { reason in
                ExpectedExplanation(
                    reason: reason, evidence: reason.flatMap(evidence),
                    otherwise: hasConsumable ? [.noPurchase, .noAccessKind] : [.noPurchase], isSame: isSame)
            }
        }
    }

    /// A question about one customer, at a time of knowledge.
    private struct Question {
        /// An id of a purchase.
        let id: String
        var app = V1Body.app
        var environment = Subscriptions.Environment.production
        let knownAt: Instant
        let instants: [Instant]
        let entitlements: [String]
        /// Nil if the id is not known.
        let books: Books?
        /// By all events; nil if another customer may have the purchases by then.
        let last: AccessBook?
        let message: String

        /// Returns how many explanations were compared.
        func check(_ server: TestBundle) async throws -> Int {
            for entitlement in entitlements {
                for instant in instants {
                    let explanation = try await answer(server, entitlement, instant)
                    guard let books else {
                        #expect(explanation == nil, "\(message)")
                        continue
                    }
                    // A pending purchase may belong to nobody.
                    guard explanation != nil || !books.isEmpty else { continue }
                    let explained = try #require(explanation, "no customer: \(message), as known at \(knownAt)")
                    if let last {
                        let until = EntitlementBook([last]).end(of: entitlement, at: instant)
                        let restated = explained.restated.map(\.until) ?? explained.until
                        #expect(restated == until, "\(message): \(explained.sentence)")
                    }
                    let differences = books.expected(entitlement, at: instant).map { $0.difference(explained) }
                    guard let difference = differences.first, differences.allSatisfy({ $0 != nil }) else { continue }
                    Issue.record("\(difference ?? ""), \(message): \(explained.sentence)")
                }
            }
            return entitlements.count * instants.count
        }

        /// Nil if the id is not known.
        private func answer(_ server: TestBundle, _ entitlement: String, _ at: Instant) async throws -> Explanation? {
            let answer = try await server.backend.get(
                "/customers/\(id)/explanation?as=subscription&app=\(app)&environment=\(environment.rawValue)"
                    + "&entitlement=\(entitlement)&at=\(at)&knownAt=\(knownAt)")
            guard answer.status != 404 else { return nil }
            try #require(answer.status == 200, "\(answer.body)\n\(server.logs.text.suffix(2000))")
            let document = try JSONDocument(Array(answer.body.utf8))
            #expect(document.root["knownAt"]?.string == knownAt.description, "\(answer.body)")
            let explanation: Explanation = try #require(Explanation(json: document.root), "\(answer.body)")
            return explanation
        }
    }

    private static func check(_ questions: [Question], _ log: SimulatedLog) async throws -> Int {
        var compared = 0
        try await TestBundle.withServer(now: { Simulation.end }, database: log.database) { server async throws in
            for question in questions { compared += try await question.check(server) }
        }
        return compared
    }

    // MARK: App Store

    @Test("of every story of the App Store")
    func appStore() async throws {
        var settings = Simulation.Settings(
            app: SimulatedApp(
                bundleId: V1Body.app, appAppleId: 1_234_567_890, environment: .production,
                sharedSecret: V1Body.secret))
        settings.seed = TestSeed.value
        settings.subscriptions = Story.allCases.count
        let simulation = try #require(Simulation(settings))
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])]),
            signatures: SignatureVerifier(roots: SimulatedLog.roots))
        try await SimulatedLog.with { log in
            var deliveries: [SimulatedLog.Delivery] = []
            // Each is appended once, in this order.
            var positions: [String: Int] = [:]
            for delivery in simulation.deliveries {
                let body = try await verifier.verify(delivery.body(), receivedAt: delivery.receivedAt)
                deliveries.append(SimulatedLog.Delivery(notification: body, receivedAt: delivery.receivedAt))
                positions[delivery.notification.notificationUUID] = deliveries.count
            }
            try await log.append(deliveries)
            await log.projector.foldAllStreams()
            try await log.configure(Product.all(of: V1Body.app), of: V1Body.app)
            let questions = Story.allCases.indices.flatMap { number in
                Self.questions(simulation.storyteller.story(at: number), number, positions)
            }

            let compared = try await Self.check(questions, log)

            #expect(compared > TestScale.count(300, full: 600))
        }
    }

    private static func questions(
        _ rendered: RenderedStory, _ number: Int, _ positions: [String: Int]
    ) -> [Question] {
        var generator = TestSeed.generator(number)
        // As long as few of them have bought, a token of everybody makes them one customer.
        let allKnownAt =
            rendered.story == .tokenOfEverybody
            ? rendered.subscriptions.compactMap { $0.notifications.first.map(receivedAt) }.max() ?? .earliest
            : .earliest
        // What two customers own one after the other is in the books as a whole.
        let isHandedOver = rendered.customers.contains { $0.owns != SimulatedCustomer.always }
        return customers(of: rendered).flatMap { customer in
            let entitlements = Set(customer.flatMap(\.products).flatMap(\.entitlements)).sorted()
            let last = AccessBook(of: customer.compactMap { KnownSubscription($0, .latest).books })
            return customer.flatMap { subscription in
                subscription.notifications.filter { notification in
                    notification.version2 != nil && allKnownAt < receivedAt(notification)
                }.flatMap { notification in
                    let others = AccessBook(of: customer.map(\.access)).instants(and: notification.signedDate)
                        .shuffled(using: &generator).prefix(isHandedOver ? 0 : instantsMax)
                    return [Int64(-1), 0].map { milliseconds in
                        let knownAt = receivedAt(notification).advanced(byMilliseconds: milliseconds)
                        let known = customer.map { KnownSubscription($0, knownAt) }
                        let more = milliseconds == 0 ? Array(others) : []
                        let isKnown = !KnownSubscription(subscription, knownAt).sent.isEmpty
                        return Question(
                            id: subscription.originalTransactionId, knownAt: knownAt,
                            instants: [notification.signedDate] + more,
                            entitlements: entitlements, books: isKnown ? books(of: known, positions) : nil,
                            last: isHandedOver ? nil : last,
                            message: "\(rendered.story.name), seed \(TestSeed.value)")
                    }
                }
            }
        }
    }

    private static func receivedAt(_ notification: StoreNotification) -> Instant {
        receivedAt(signedAt: notification.signedDate)
    }

    private static func receivedAt(signedAt instant: Instant) -> Instant {
        instant.advanced(byMilliseconds: 1500)
    }

    /// The subscriptions of each customer. No link is sent, so only account tokens join Apple Accounts.
    private static func customers(of rendered: RenderedStory) -> [[SimulatedSubscription]] {
        guard !rendered.statements.isEmpty else {
            let numbers = rendered.customers.map(\.subscriptions)
            return Set(numbers).sorted { $0.lexicographicallyPrecedes($1) }.filter { !$0.isEmpty }
                .map { $0.map { rendered.subscriptions[$0] } }
        }
        let byToken = Dictionary(grouping: rendered.subscriptions) {
            $0.customer.appAccountToken ?? $0.originalTransactionId
        }
        return byToken.values.sorted { $0[0].originalTransactionId < $1[0].originalTransactionId }
    }

    /// A subscription by the notifications received until a time.
    private struct KnownSubscription {
        let subscription: SimulatedSubscription
        let sent: [StoreNotification]
        let books: AccessBook?

        init(_ subscription: SimulatedSubscription, _ knownAt: Instant) {
            self.subscription = subscription
            let known = zip(subscription.notifications, subscription.notifiedBooks).filter { notification, _ in
                notification.version2 != nil && ExplainedStoryTests.receivedAt(notification) <= knownAt
            }
            sent = known.map(\.0)
            books = known.last.map { last in
                // What moved to another subscription is known by a notification of that one, signed at once.
                let moved = subscription.history.last {
                    !$0.isNotified && last.1.at <= $0.at && ExplainedStoryTests.receivedAt(signedAt: $0.at) <= knownAt
                }
                return (moved ?? last.1).access
            }
        }
    }

    private static func books(of known: [KnownSubscription], _ positions: [String: Int]) -> Books {
        let sent = known.flatMap(\.sent)
        return Books(
            parts: known.compactMap(\.books),
            evidence: { reason in
                // The first of those that report the purchase, under whatever subscription.
                known.filter { $0.sent.contains { $0.subject.transactionId == reason.transactionId } }
                    .compactMap { own in
                        reason.version2Evidence(own.sent).flatMap { positions[own.sent[$0 - 1].notificationUUID] }
                    }.min()
            }, hasConsumable: sent.contains { $0.subject.product.kind == .consumable })
    }

    // MARK: Google Play

    @Test("of every story of Google Play")
    func googlePlay() async throws {
        var settings = PlayStoryteller.Settings()
        settings.seed = TestSeed.value
        let storyteller = PlayStoryteller(settings)
        try await SimulatedLog.with { log in
            var questions: [Question] = []
            for (number, story) in PlayStory.allCases.enumerated() where !story.isEndDatedByAnswer {
                // As long as few of them have bought, an account of everybody makes them one customer.
                guard story != .accountOfEverybody else { continue }
                let rendered = storyteller.story(at: number)
                for customer in Self.customers(of: rendered) {
                    questions += try await Self.ask(customer, rendered, story, number, log)
                }
            }
            await log.projector.foldAllStreams()
            try await log.configure(Product.allOnGooglePlay(of: settings.bundleId), of: Self.packageName)

            let compared = try await Self.check(questions, log)

            #expect(compared > TestScale.count(300, full: 600))
        }
    }

    private static let packageName = "com.example.play"

    /// The purchases of each customer, whom the store names by the id of the app's account.
    private static func customers(of rendered: RenderedPlayStory) -> [[AskedLife]] {
        let all = AskedLife.all(of: rendered)
        let accounts = rendered.subscriptions.map(\.customer.account.obfuscatedAccountId)
        guard accounts.count == 2, accounts[0] != nil, accounts[0] == accounts[1] else { return all.map { [$0] } }
        return [all]
    }

    /// Asks about the purchases of a customer, appends the answers, and returns what they let a reader know.
    private static func ask(
        _ customer: [AskedLife], _ rendered: RenderedPlayStory, _ story: PlayStory, _ number: Int, _ log: SimulatedLog
    ) async throws -> [Question] {
        var generator = TestSeed.generator(number)
        var lives: [[KnownPurchase]] = []
        for life in customer {
            var asked = AskedPurchases(life, packageName: packageName)
            var steps: [KnownPurchase] = []
            for occasion in life.occasions(handIns: rendered.handIns) {
                let answeredAt = try asked.ask(after: occasion)
                steps.append(KnownPurchase(asked: asked, answeredAt: answeredAt, books: life.books(after: occasion)))
            }
            let appended = try await log.append(
                asked.statements.map { PreparedEvent($0, receivedAt: $0.answeredAt) }
            ).map { Int($0.position) }
            lives.append(
                steps.map { step in
                    var step = step
                    step.positions = appended
                    return step
                })
        }
        let entitlements = Set(customer.flatMap(\.entitlements)).sorted()
        let access = AccessBook(of: customer.map(\.access))
        let last = AccessBook(of: lives.compactMap(\.last?.books))
        return zip(customer, lives).flatMap { life, steps in
            Set(steps.map(\.answeredAt)).sorted().flatMap { answeredAt in
                let others = access.instants(and: answeredAt).shuffled(using: &generator)
                    .prefix(story == .upgradeByAnotherUser ? 0 : instantsMax)
                return [Int64(-1), 0].map { milliseconds in
                    let knownAt = answeredAt.advanced(byMilliseconds: milliseconds)
                    let known = lives.compactMap { $0.last { $0.answeredAt <= knownAt } }
                    let more = milliseconds == 0 ? Array(others) : []
                    let own = steps.last { $0.answeredAt <= knownAt }
                    return Question(
                        id: life.purchaseToken, app: packageName,
                        environment: story.isTest ? .sandbox : .production, knownAt: knownAt,
                        instants: [answeredAt] + more, entitlements: entitlements,
                        books: own == nil ? nil : books(of: known, customer, story),
                        last: story == .upgradeByAnotherUser ? nil : last,
                        message: "\(story.name), seed \(TestSeed.value)")
                }
            }
        }
    }

    /// A purchase by the answers until a time.
    private struct KnownPurchase {
        let asked: AskedPurchases
        let answeredAt: Instant
        let books: AccessBook
        /// Of all answers.
        var positions: [Int] = []
    }

    /// Of a price change, rule and purchase are compared; its evidence is compared by the test of the fold.
    private static func books(of known: [KnownPurchase], _ customer: [AskedLife], _ story: PlayStory) -> Books {
        Books(
            parts: known.map(\.books),
            evidence: { reason in
                story == .priceChange
                    ? nil
                    : known.lazy.compactMap { own in own.asked.evidence(reason).map { own.positions[$0 - 1] } }.first
            }, hasConsumable: customer.contains(where: \.isConsumable), isSame: ExpectedExplanation.isSameOrder)
    }
}
