import Subscriptions

// MARK: - One person, several lines

extension Story {
    /// One user of the app on two Apple Accounts: only the account token ties the lines.
    func accountTokenLines(_ draw: inout Draw) -> ToldStory {
        var first = draw.life(line: 0, token: .given)
        var second = draw.life(line: 1, token: .of(first.customer))
        let start = draw.start()
        first.subscribe(to: draw.product(draw.one(of: [.basic, .plus]), draw.period()), at: start)
        draw.renew(&first, 0...2)
        second.subscribe(to: draw.product(draw.one(of: [.premium, .audio]), draw.period()), at: draw.within(first))
        draw.renew(&second, 0...2)
        draw.end(&second, chance: 50)
        return ToldStory(
            self, [ToldLine(first), ToldLine(second)], customers: [ToldCustomer(lines: [0, 1])])
    }

    /// Two subscription groups on one Apple Account: one receipt in version 1, one appTransactionId in version 2.
    func appleAccountLines(_ draw: inout Draw) -> ToldStory {
        var first = draw.life(line: 0)
        var second = draw.life(line: 1, customer: first.customer)
        first.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: draw.start())
        second.subscribe(to: draw.product(.audio, draw.period()), at: draw.within(first))
        draw.renew(&first, 0...2)
        draw.renew(&second, 0...2)
        draw.end(&first, chance: 50)
        return ToldStory(
            self, [ToldLine(first), ToldLine(second)], customers: [ToldCustomer(lines: [0, 1])])
    }

    /// A restore that came back under another line: the history is split in two, the account is one.
    func restoredLines(_ draw: inout Draw) -> ToldStory {
        var first = draw.life(line: 0)
        var second = draw.life(line: 1, customer: first.customer)
        first.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: draw.start())
        draw.renew(&first, 0...2)
        second.restore(first)
        // The store does not tell of a restore. The copy is seen in what it tells next.
        let off = draw.within(second)
        second.switchOff(at: off)
        if draw.random.chance(60) {
            second.switchOn(at: draw.between(off, second.expiry))
            draw.renew(&second, 1...2)
        } else {
            second.runOut()
        }
        return ToldStory(
            self, [ToldLine(first), ToldLine(second)], customers: [ToldCustomer(lines: [0, 1])])
    }

    /// Bought once more after the end, from another Apple Account: a new line of the same user.
    func boughtAnewLines(_ draw: inout Draw) -> ToldStory {
        var first = draw.life(line: 0, token: .given)
        var second = draw.life(line: 1, token: .of(first.customer))
        let period = draw.period()
        first.subscribe(to: draw.product(.plus, period), at: draw.start())
        first.switchOff(at: draw.within(first))
        first.runOut()
        let latest = first.expiry.advanced(byMilliseconds: Int64(draw.count(5...60)) * Draw.dayMilliseconds)
        second.subscribe(to: draw.product(.plus, period), at: draw.between(first.expiry, latest))
        draw.renew(&second, 0...2)
        return ToldStory(
            self, [ToldLine(first), ToldLine(second)], customers: [ToldCustomer(lines: [0, 1])])
    }
}

// MARK: - What only a backend knows

extension Story {
    /// Two accounts without anything in common, and a backend that knows both for one person's.
    func linkedLines(_ draw: inout Draw) -> ToldStory {
        let lines = draw.strangers(2)
        let backendId = draw.backendId(1)
        let keys = [draw.linkKey(lines[0]), draw.linkKey(lines[1])]
        let links = zip(lines, keys).map { $0.link(by: $1) }
        let first = draw.afterBeginning(of: lines)
        // What is stated first is part of what holds in the end, or none of it.
        let early = draw.one(of: [[], [links[0]], [links[1]]])
        return ToldStory(
            self, lines, customers: [ToldCustomer(lines: [0, 1], backendIds: [backendId])],
            statements: [
                StatedLinks(customerId: backendId, statedAt: first, links: early),
                StatedLinks(customerId: backendId, statedAt: draw.later(than: first), links: links),
            ])
    }

    /// A line linked to the wrong customer, and moved to the right one.
    func movedLines(_ draw: inout Draw) -> ToldStory {
        let lines = draw.strangers(3)
        let (wrong, right) = (draw.backendId(1), draw.backendId(2))
        let links = lines.map { $0.link(by: draw.linkKey($0)) }
        let first = draw.afterBeginning(of: lines)
        let second = draw.later(than: first)
        // The wrong customer keeps another line, or nothing.
        let keepsOne = draw.random.chance(60)
        return ToldStory(
            self, lines,
            customers: [
                ToldCustomer(lines: [0], backendIds: keepsOne ? [wrong] : []),
                ToldCustomer(lines: [1, 2], backendIds: [right]),
            ] + (keepsOne ? [] : [ToldCustomer(lines: [], backendIds: [wrong])]),
            statements: [
                StatedLinks(customerId: wrong, statedAt: first, links: [links[0], links[1]]),
                StatedLinks(customerId: right, statedAt: first, links: [links[2]]),
                StatedLinks(customerId: wrong, statedAt: second, links: keepsOne ? [links[0]] : []),
                StatedLinks(customerId: right, statedAt: second, links: [links[1], links[2]]),
            ])
    }
}

extension Draw {
    /// Lines of accounts that have nothing in common, each with some renewals.
    fileprivate mutating func strangers(_ count: Int) -> [ToldLine] {
        (0..<count).map { line in
            var life = life(line: line)
            life.subscribe(to: product(one(of: [.basic, .plus, .premium, .audio]), period()), at: start())
            renew(&life, 0...2)
            end(&life, chance: 40)
            return ToldLine(life)
        }
    }

    /// An id that the line has.
    fileprivate mutating func linkKey(_ line: ToldLine) -> StatedLink.Key {
        one(of: StatedLink.Key.allCases.filter { $0 != .appAccountToken || line.customer.appAccountToken != nil })
    }

    /// When something is told of each of them, or later.
    fileprivate mutating func afterBeginning(of lines: [ToldLine]) -> Instant {
        later(than: lines.compactMap(\.tellings.first?.signedDate).max() ?? Self.window.lowerBound)
    }

    fileprivate mutating func later(than instant: Instant) -> Instant {
        between(instant, instant.advanced(byMilliseconds: 20 * Self.dayMilliseconds))
    }

    /// What a backend calls a customer: one id for each number of a story.
    fileprivate func backendId(_ number: Int) -> String {
        "user-\(seed % 100_000)-\(index)-\(number)"
    }

    /// In so many of a hundred cases the renewal is switched off, and the line runs out.
    fileprivate mutating func end(_ life: inout SubscriptionLife, chance percent: Int) {
        guard random.chance(percent) else { return }
        life.switchOff(at: within(life))
        life.runOut()
    }
}
