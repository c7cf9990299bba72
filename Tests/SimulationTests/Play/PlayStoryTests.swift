import Encoding
import Simulation
import Testing

@Suite("Stories on Google Play")
struct PlayStoryTests {
    private static let seeds: Range<UInt64> = 1..<9

    private func storyteller(_ seed: UInt64, isAcknowledgedByApp: Bool = true) -> PlayStoryteller {
        var settings = PlayStoryteller.Settings()
        settings.seed = seed
        settings.isAcknowledgedByApp = isAcknowledgedByApp
        return PlayStoryteller(settings)
    }

    /// Visits two renderings of every story for each seed.
    private func forEach(
        _ seeds: Range<UInt64> = seeds, isAcknowledgedByApp: Bool = true,
        _ visit: (RenderedPlayStory, PlayStoryteller, Int, Comment) throws -> Void
    ) rethrows {
        for seed in seeds {
            let storyteller = storyteller(seed, isAcknowledgedByApp: isAcknowledgedByApp)
            for index in 0..<PlayStory.allCases.count * 2 {
                let rendered = storyteller.story(at: index)
                try visit(rendered, storyteller, index, "seed \(seed), story \(index): \(rendered.story.name)")
            }
        }
    }

    @Test("the same seed gives the same story, another seed another one")
    func repeatable() {
        let first = storyteller(3).story(at: 5).messages

        #expect(first == storyteller(3).story(at: 5).messages)
        #expect(first != storyteller(4).story(at: 5).messages)
    }

    @Test("every token and every order leads back to its story; none is used twice")
    func ids() {
        var seen: Set<String> = []
        forEach(1..<2) { rendered, storyteller, index, comment in
            let tokens = rendered.subscriptions.flatMap(\.tokens).map(\.token) + rendered.oneTimePurchases.map(\.token)
            for token in tokens {
                #expect(token.count == 144 && seen.insert(token).inserted, comment)
                #expect(storyteller.place(ofToken: token)?.story == index, comment)
            }
            for order in rendered.orders {
                #expect(storyteller.place(ofOrder: order.orderId)?.story == index, comment)
                #expect(seen.insert(order.orderId).inserted, comment)
            }
            for message in rendered.messages {
                #expect(message.messageId.count == 17 && seen.insert(message.messageId).inserted, comment)
            }
        }
        #expect(storyteller(1).place(ofToken: String(repeating: "a", count: 144)) == nil)
        #expect(storyteller(2).place(ofOrder: "GPA.3000-0100-0000-00000") == nil)
    }

    /// The states that the API should show when a message arrives.
    private func expectedStates(_ type: PlayMessage.SubscriptionType) -> Set<PlayState> {
        switch type {
        case .onHold: [.onHold]
        case .inGracePeriod: [.inGracePeriod]
        case .canceled: [.canceled, .expired]
        case .paused: [.paused]
        case .revoked, .expired: [.expired]
        case .pendingPurchaseCanceled: [.pendingPurchaseCanceled]
        default: [.active]
        }
    }

    @Test("when a message arrives, the store shows the state that belongs to it")
    func states() {
        forEach { rendered, _, _, comment in
            for life in rendered.subscriptions {
                for message in life.messages {
                    guard let type = message.subscriptionType else { continue }
                    let purchase = life.tokens.first { $0.token == message.purchaseToken }
                    let state = purchase?.book(at: message.eventTime)?.state
                    // A message may be sent twice, or a plan change may follow at once.
                    #expect(state.map { expectedStates(type).contains($0) } == true, comment)
                }
            }
        }
    }

    @Test("at any time the record of access agrees with a plain reading of the newest token, except for voids")
    func access() {
        forEach { rendered, _, _, comment in
            for life in rendered.subscriptions where life.voids.isEmpty {
                let boundaries = life.key.access.boundaries.filter { $0 < .latest }.sorted()
                for (instant, next) in zip(boundaries, boundaries.dropFirst() + [.latest]) {
                    // Two minutes and a half later, the store has noticed each end and charged each renewal.
                    let later = instant.advanced(byMilliseconds: 150_000)
                    guard later < next else { continue }
                    #expect(life.showsAccess(at: later) == life.key.access.isActive(at: later), comment)
                }
            }
        }
    }

    @Test("a linked token grants nothing from the start of the new one on, and there is no gap")
    func links() {
        var links = 0
        forEach { rendered, _, _, comment in
            for life in rendered.subscriptions {
                for purchase in life.purchases.dropFirst() {
                    guard let start = purchase.history.compactMap(\.book.startTime).first else { continue }
                    links += 1
                    #expect(life.key.access.isActive(at: start.advanced(byMilliseconds: -1)), comment)
                    #expect(life.key.access.isActive(at: start), comment)
                    let crossing = life.key.access.spans.map(\.span).filter {
                        $0.lowerBound < start && start < $0.upperBound
                    }
                    #expect(crossing.isEmpty, comment)
                }
            }
        }
        #expect(links > 500)
    }

    @Test("every story ends in its window, and each subscription has ended")
    func ends() {
        forEach { rendered, _, _, comment in
            for life in rendered.subscriptions {
                let state = life.tokens.last.flatMap { $0.history.last?.book.state }
                #expect([.expired, .pendingPurchaseCanceled].contains(state), comment)
            }
            #expect(rendered.messages.allSatisfy { $0.eventTime.description < "2026-07" }, comment)
        }
    }

    @Test("what is not acknowledged is taken back; what happened before does not depend on it")
    func acknowledgements() {
        forEach(1..<3, isAcknowledgedByApp: false) { rendered, storyteller, index, comment in
            let complete = self.storyteller(storyteller.settings.seed).story(at: index)
            for (life, full) in zip(rendered.subscriptions, complete.subscriptions).prefix(1) {
                guard let void = life.voids.first(where: { $0.reason == .unacknowledged }) else { continue }
                let before = { (message: PlayMessage) in message.eventTime < void.voidedTime }
                #expect(life.messages.filter(before) == full.messages.filter(before), comment)
                #expect(life.messages.suffix(3).map(\.subscriptionType) == [.revoked, .expired, nil], comment)
                let token = life.current.token
                let saved = storyteller.story(
                    at: index, acknowledged: [token: void.voidedTime.advanced(byMilliseconds: -1)])
                #expect(saved.subscriptions[0].messages.count > life.messages.filter(before).count, comment)
            }
        }
        let left = storyteller(1).story(at: PlayStory.allCases.firstIndex(of: .unacknowledged)!)
        #expect(left.voids.map(\.reason) == [.unacknowledged])
    }

    @Test("the app hands every token in, except those of purchases in Google Play itself")
    func handIns() {
        forEach(1..<2) { rendered, _, _, comment in
            let tokens = rendered.subscriptions.flatMap(\.tokens).filter { $0.history[0].book.outOfApp == nil }
            #expect(
                Set(rendered.handIns.map(\.purchaseToken))
                    == Set(tokens.map(\.token) + rendered.oneTimePurchases.map(\.token)), comment)
            #expect(rendered.story != .resubscribedInPlay || rendered.handIns.count == 1, comment)
        }
    }
}

extension PlayLife {
    /// Access by the state and expiry of all tokens that nothing replaces yet, as the table of states reads.
    fileprivate func showsAccess(at instant: Instant) -> Bool {
        tokens.contains { purchase in
            guard let book = purchase.book(at: instant) else { return false }
            switch book.state {
            case .active, .canceled, .inGracePeriod:
                return book.items.contains { $0.expiryTime.map { instant < $0 } ?? false }
            case .expired, .onHold, .paused, .pending, .pendingPurchaseCanceled: return false
            }
        }
    }
}
