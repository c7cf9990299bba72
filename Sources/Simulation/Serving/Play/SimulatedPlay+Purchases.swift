import Encoding

// MARK: - Purchases

extension SimulatedPlay {
    /// A purchase token of a subscription.
    private struct Found {
        let life: PlayLife
        let purchase: PlayPurchaseToken
    }

    private static let keptAfterEnd = Duration.seconds(60 * 86_400)
    /// No token is shorter. An order id in place of a token is.
    private static let tokenCharactersMin = 40

    /// The story that has the token.
    private func story(of request: PlayRequest) throws(PlayError) -> RenderedPlayStory {
        guard request.id.utf8.count >= Self.tokenCharactersMin else { throw .invalidToken }
        guard let place = storyteller.place(ofToken: request.id), (0..<storyCount).contains(place.story) else {
            throw .unknownToken
        }
        guard !state.withLock({ $0.deleted.contains(request.id) }) else { throw .deleted }
        return story(place.story)
    }

    private func find(_ request: PlayRequest) throws(PlayError) -> Found {
        let story = try story(of: request)
        guard !story.oneTimePurchases.contains(where: { $0.token == request.id }) else { throw .otherKind }
        for life in story.subscriptions {
            guard let purchase = life.tokens.first(where: { $0.token == request.id }) else { continue }
            guard let first = purchase.history.first,
                first.at.advanced(by: settings.newTokenDelay) <= request.now
            else { break }
            try checkAge(of: purchase, at: request.now)
            let named = state.withLock { $0.namedAccounts[request.id] }
            return Found(life: life, purchase: named.map { purchase.naming($0) } ?? purchase)
        }
        throw .unknownToken
    }

    private func checkAge(of purchase: PlayPurchaseToken, at now: Instant) throws(PlayError) {
        guard let last = purchase.history.last(where: { $0.at <= now }),
            [.expired, .pendingPurchaseCanceled].contains(last.book.state),
            last.at.advanced(by: Self.keptAfterEnd) < now
        else { return }
        throw settings.tooOld == .gone ? .tooOld : .expiredLongAgo
    }

    private func findOneTime(_ request: PlayRequest) throws(PlayError) -> PlayOneTimeLife {
        let story = try story(of: request)
        guard let life = story.oneTimePurchases.first(where: { $0.token == request.id }) else {
            throw story.subscriptions.isEmpty ? .unknownToken : .invalidToken
        }
        guard life.history.first.map({ $0.at.advanced(by: settings.newTokenDelay) <= request.now }) == true else {
            throw .unknownToken
        }
        return life
    }

    /// The instant whose books an answer shows. The first ones after a change show the time before it.
    private func shownInstant(_ changes: [Instant], _ request: PlayRequest) -> Instant {
        guard settings.staleAnswers > 0, let last = changes.last(where: { $0 <= request.now }), last > changes[0]
        else { return request.now }
        let key = "\(request.id) \(last.milliseconds)"
        let isStale = state.withLock { state in
            let given = state.staleAnswers[key, default: 0]
            guard given < settings.staleAnswers else { return false }
            state.staleAnswers[key] = given + 1
            return true
        }
        return isStale ? last.advanced(byMilliseconds: -1) : request.now
    }

    func subscriptionV2(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        let found = try find(request)
        let instant = shownInstant(found.purchase.history.map(\.at), request)
        guard let body = found.life.subscriptionV2(found.purchase, at: instant, settings.rendering) else {
            throw .unknownToken
        }
        if request.isReadable { noteEnd(of: found.purchase, at: instant, request) }
        return .json(body)
    }

    /// Notes the first answer by which alone an end can be dated.
    private func noteEnd(of purchase: PlayPurchaseToken, at instant: Instant, _ request: PlayRequest) {
        guard let book = purchase.book(at: instant), book.state == .expired,
            book.items.contains(where: { $0.expiryTime.map { $0 > request.now } ?? true }),
            let place = storyteller.place(ofToken: request.id)
        else { return }
        let key = PlayLife.endKey(of: request.id)
        state.withLock { state in
            guard state.acknowledged[place.story]?[key] == nil else { return }
            state.acknowledged[place.story, default: [:]][key] = request.now
        }
    }

    func subscription(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        let found = try find(request)
        let instant = shownInstant(found.purchase.history.map(\.at), request)
        guard let book = found.purchase.book(at: instant),
            book.items.contains(where: { $0.plan.productId == request.match.productId })
        else { throw .mismatch }
        guard let body = found.life.subscription(found.purchase, at: instant, settings.rendering) else {
            throw .unknownToken
        }
        return .json(body)
    }

    func productV2(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        let life = try findOneTime(request)
        let instant = shownInstant(life.history.map(\.at), request)
        guard let body = life.productV2(at: instant, settings.rendering) else { throw .unknownToken }
        return .json(body)
    }

    func product(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        let life = try findOneTime(request)
        guard life.sku == request.match.productId else { throw .mismatch }
        let instant = shownInstant(life.history.map(\.at), request)
        guard let body = life.product(at: instant) else { throw .unknownToken }
        return .json(body)
    }
}

// MARK: - Acknowledgement

extension SimulatedPlay {
    func acknowledgeSubscription(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        try checkBody(request)
        let found = try find(request)
        guard let book = found.purchase.book(at: request.now) else { throw .unknownToken }
        if let productId = request.match.productId,
            !book.items.contains(where: { $0.plan.productId == productId })
        {
            throw .mismatch
        }
        switch book.state {
        case .pending, .pendingPurchaseCanceled: throw .invalidState
        case .expired where !found.purchase.isAcknowledged(at: request.now): throw .notOwned
        default: break
        }
        return try acknowledge(
            request, isRepeated: found.purchase.isAcknowledged(at: request.now), isOutOfApp: book.outOfApp != nil)
    }

    /// Acknowledges a one-time purchase. A consumption implies it.
    func acknowledgeProduct(_ request: PlayRequest) throws(PlayError) -> PlayResponse {
        try checkBody(request)
        let life = try findOneTime(request)
        guard life.sku == request.match.productId else { throw .mismatch }
        switch life.book(at: request.now)?.state {
        case .purchased: break
        case .cancelled: throw .notOwned
        case .pending, nil: throw .invalidState
        }
        return try acknowledge(request, isRepeated: life.isAcknowledged(at: request.now))
    }

    private func checkBody(_ request: PlayRequest) throws(PlayError) {
        let body = request.call.body
        guard body.isEmpty || (try? JSONDocument(body).root.isObject) == true else { throw .invalidValue }
    }

    /// - Parameter isOutOfApp: A purchase that was made outside the app takes the ids of the app user.
    private func acknowledge(
        _ request: PlayRequest, isRepeated: Bool, isOutOfApp: Bool = false
    ) throws(PlayError) -> PlayResponse {
        let account = PlayAccount(inAcknowledgement: request.call.body)
        state.withLock { state in
            state.acknowledgements.append(
                Acknowledgement(
                    purchaseToken: request.id, at: request.now, isRepeated: isRepeated, account: account))
            if isOutOfApp, !isRepeated, !account.isEmpty { state.namedAccounts[request.id] = account }
            guard !isRepeated, let place = storyteller.place(ofToken: request.id) else { return }
            state.acknowledged[place.story, default: [:]][request.id] = request.now
            state.voids[place.story] = nil
        }
        guard isRepeated else {
            sender?.reconsider(story: storyteller.place(ofToken: request.id)?.story)
            return .empty
        }
        switch settings.repeatedAcknowledgement {
        case .success: return .empty
        case .invalidPurchaseState: throw .invalidState
        case .productNotOwnedByUser: throw .notOwned
        }
    }
}

extension PlayAccount {
    /// The ids in the body of an acknowledgement.
    fileprivate init(inAcknowledgement body: [UInt8]) {
        let ids = (try? JSONDocument(body))?.root["externalAccountIds"]
        self.init(
            obfuscatedAccountId: ids?["obfuscatedAccountId"]?.string,
            obfuscatedProfileId: ids?["obfuscatedProfileId"]?.string)
    }
}

extension PlayPurchaseToken {
    /// The purchase with the app user whom its acknowledgement named.
    fileprivate func naming(_ account: PlayAccount) -> PlayPurchaseToken {
        var named = self
        named.history = history.map { entry in
            var book = entry.book
            book.account = account
            return Entry(at: entry.at, book: book)
        }
        return named
    }
}
