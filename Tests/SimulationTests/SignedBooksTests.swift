import Encoding
import Simulation
import Testing

@Suite("The books show transactions and statuses at an instant, with what an app's server changed")
struct SignedBooksTests {
    private static func simulation(_ stories: [Story] = Story.allCases, count: Int = 80) throws -> Simulation {
        var settings = Simulation.Settings(app: testApp)
        settings.stories = stories
        settings.subscriptions = count
        return try #require(Simulation(settings))
    }

    /// A subscription bought on 2025-01-10 and renewed on 2025-02-10.
    private static func renewed() -> SubscriptionLife {
        var life = newLife()
        life.subscribe(to: monthly, at: day("2025-01-10"))
        life.renew()
        return life
    }

    @Test("the status right after an event is the status in its notification")
    func statuses() throws {
        let simulation = try Self.simulation()
        var checked = 0
        for story in 0..<80 {
            for subscription in simulation.storyteller.accounts(ofStory: story).flatMap(\.subscriptions) {
                let books = subscription.notifiedBooks
                for (index, (entry, notification)) in zip(books, subscription.notifications).enumerated() {
                    // Of two events of one instant, only the state after the second one can be asked for.
                    let isOvertaken = index + 1 < books.count && books[index + 1].at == entry.at
                    guard let expected = notification.status, !isOvertaken else { continue }
                    let status = subscription.status(at: entry.at)

                    #expect(status?.status == expected, "story \(story), \(notification.notificationUUID)")
                    checked += 1
                }
            }
        }
        #expect(checked > 200)
    }

    @Test("a row's date of change moves when it is refunded, and when the refund is reversed")
    func modification() throws {
        var life = Self.renewed()
        life.refund("2000070000000000", at: day("2025-02-20"))
        life.reverseRefund(of: "2000070000000000", at: day("2025-03-01"))
        let subscription = SimulatedSubscription(life)
        func rows(_ date: String) -> [String] {
            subscription.transactions(at: day(date)).map { "\($0.transactionId) \($0.modifiedAt)" }
        }

        #expect(rows("2025-01-09").isEmpty)
        #expect(rows("2025-01-31") == ["2000070000000000 2025-01-10T00:00:00.000Z"])
        #expect(
            rows("2025-02-25") == [
                "2000070000000000 2025-02-20T00:00:00.000Z", "2000070000000001 2025-02-10T00:00:00.000Z",
            ])
        #expect(rows("2025-03-02").first == "2000070000000000 2025-03-01T00:00:00.000Z")
    }

    @Test("an extension moves the end of its period from the instant at which it was granted")
    func extensions() throws {
        let subscription = SimulatedSubscription(Self.renewed())
        var amendments = BookAmendments()
        amendments.extend(
            "2000070000000000",
            by: .init(transactionId: "2000070000000001", expiresDate: day("2025-03-20"), at: day("2025-03-01")))
        func status(_ date: String) -> StoreNotification.Status? {
            subscription.status(at: day(date), amendments)?.status
        }

        #expect(subscription.status(at: day("2025-03-10"))?.status == .expired)
        #expect(status("2025-03-10") == .active)
        #expect(status("2025-03-20") == .expired)
        let before = try #require(subscription.status(at: day("2025-02-28"), amendments))
        let after = try #require(subscription.status(at: day("2025-03-01"), amendments))
        #expect(before.transaction.purchase.expiresDate == day("2025-03-10"))
        #expect(after.transaction.purchase.expiresDate == day("2025-03-20"))
        #expect(after.transaction.modifiedAt == day("2025-03-01"))
        #expect(after.renewalInfo(app: testApp, signedDate: day("2025-03-01")).renewalDate == day("2025-03-20"))
    }

    @Test("an account token holds for its transaction and for later ones only")
    func accountTokens() {
        let subscription = SimulatedSubscription(Self.renewed())
        let token = "11111111-2222-4333-8444-555555555555"
        var amendments = BookAmendments()
        amendments.setAccountToken(
            "2000070000000000",
            to: .init(transactionId: "2000070000000001", appAccountToken: token, at: day("2025-02-20")))
        func tokens(_ date: String) -> [String?] {
            subscription.transactions(at: day(date), amendments).map(\.purchase.appAccountToken)
        }

        let own = "7e3fb204-2a0c-4c5e-9d3c-0f5b3c8f4a11"
        #expect(tokens("2025-02-19") == [own, own])
        #expect(tokens("2025-02-20") == [own, token])
    }

    @Test("every id of a customer leads to the Apple Account, and ids of other runs to none")
    func lookup() throws {
        let simulation = try Self.simulation([.sharedAppleAccount], count: 3)
        let account = simulation.storyteller.accounts(ofStory: 2)[0]
        let subscription = account.subscriptions[1]
        let last = try #require(subscription.purchases.last?.transactionId)

        let byOriginal = try #require(simulation.lookup(subscription.originalTransactionId))
        let byAccount = try #require(simulation.lookup(account.appTransactionId))

        #expect(byOriginal.kind == .original && byOriginal.account.key == account.key)
        #expect(byOriginal.subscription?.originalTransactionId == subscription.originalTransactionId)
        #expect(byAccount.kind == .account && byAccount.account.key == account.key)
        #expect(byAccount.subscription == nil && byAccount.knownSince == account.firstPurchase)
        #expect(simulation.lookup(last)?.account.key == account.key)
        #expect(simulation.lookup("2000020000000000") == nil)
        #expect(simulation.lookup("7000001" + "0000000009") == nil)
        #expect(simulation.lookup("latest") == nil)
    }

    @Test("the notifications made are all of version 2, in the order of signing, with the same bytes each time")
    func made() throws {
        let simulation = try Self.simulation([.renewals, .proratedRefund], count: 6)
        let made = MadeNotifications(simulation)

        #expect(made.count == simulation.deliveries.count)
        #expect(made.map(\.signedDate) == made.map(\.signedDate).sorted())
        #expect(made[3].body() == made[3].body())
        #expect(made[3].body() == V2Notification.body(signedPayload: made[3].signedPayload()))
        #expect(made[3].signedPayload(isSignedAnew: true) != made[3].signedPayload())
        #expect(made.firstIndex(notBefore: made[3].signedDate) <= 3)
        #expect(made.firstIndex(notBefore: made[3].signedDate.advanced(byMilliseconds: 1)) > 3)
        #expect(made.firstIndex(notBefore: .latest) == made.count)
        for story in 0..<6 {
            #expect(made.positions(ofStory: story) == made.indices.filter { made[$0].account.story == story })
        }
        #expect(made.positions(ofStory: 6).isEmpty)
    }
}
