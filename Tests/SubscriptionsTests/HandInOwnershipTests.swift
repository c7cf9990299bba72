import Encoding
import Subscriptions
import TestSupport
import Testing

/// A line of purchases on Google Play, each of which continues the one before it, and the links of customers on them.
@Suite("Whose a purchase is that was handed in depends on no order of arrival")
struct HandInOwnershipTests {
    /// What the server receives.
    private enum Arrival {
        case answer(Int)
        case links(LinkStatement)
    }

    private static func token(_ number: Int) -> String { ["p-3", "p-1", "p-4", "p-0", "p-2"][number] }

    private static func key(_ number: Int) -> CustomerKey { CustomerKey(.subscription, token(number)) }

    /// The answer about each purchase of a line.
    ///
    /// - Parameter accounts: The app user that each purchase states.
    private static func answers(_ accounts: [String?]) -> [Event] {
        var story = PlayStory()
        for (number, account) in accounts.enumerated() {
            let month = "2025-0\(number + 1)"
            story.answer(
                "\(month)-01T00:00:03Z", .active, token: token(number), start: "\(month)-01", until: "\(month)-28",
                order: "G\(number)", linked: number == 0 ? nil : token(number - 1)
            ) { $0.obfuscatedAccountId = account }
        }
        return story.events
    }

    /// The owners of the subscriptions at the end, and the customers to whom each purchase and the app user x-1 lead.
    private static func owners(
        _ arrivals: [Arrival], _ answers: [Event], _ policy: OwnershipPolicy
    ) -> (owners: Set<CustomerKey>, leads: Set<CustomerKey?>, user: CustomerKey?) {
        var ledger = MemoryLedger()
        var statements: [Int64: LinkStatement] = [:]
        for (index, arrival) in arrivals.enumerated() {
            switch arrival {
            case .answer(let number): ledger.append(answers[number], receivedAt: SubscriptionFacts.arrival(index))
            case .links(let statement):
                statements[Int64(index + 1)] = statement
                let event = statement.event(
                    environment: .production, app: PlayStory.app, receivedAt: SubscriptionFacts.arrival(index),
                    dedupeKey: DedupeKey(bytes: Array(repeating: UInt8(200 + index), count: 32)))
                ledger.append(event, receivedAt: SubscriptionFacts.arrival(index))
            }
        }
        let facts = ledger.facts(of: MemoryLedger.Stream(app: PlayStory.app, environment: .production))
        let customers = Customers(
            of: facts.values.map { $0.ownershipEvidence() }, links: CustomerLinks(statements), policy: policy)
        return (
            Set(customers.ownership.map(\.owner)),
            Set(answers.indices.map { customers.customer(key($0), at: day("2026-01-01")) }),
            customers.customer(CustomerKey(.account, "x-1"), at: day("2026-01-01"))
        )
    }

    /// All purchases of a line carry the app user, or the first alone does, or none does.
    private static func accounts(_ count: Int) -> [[String?]] {
        [
            Array(repeating: nil, count: count), Array(repeating: "x-1", count: count),
            ["x-1"] + Array(repeating: nil, count: count - 1),
        ]
    }

    @Test("a purchase of a line, handed in at any time, gives the customer the whole line", arguments: 1...5)
    func oneCustomer(count: Int) {
        for accounts in Self.accounts(count) {
            let answers = Self.answers(accounts)
            for handed in 0..<count {
                let statement = handedIn("u-1", Self.key(handed))
                for order in permutations(of: Array(-1..<count)) {
                    let arrivals = order.map { $0 < 0 ? Arrival.links(statement) : .answer($0) }
                    for policy in OwnershipPolicy.allCases {
                        let found = Self.owners(arrivals, answers, policy)

                        // Customers share what one has bought and another one has linked.
                        let buyer: Set<CustomerKey> =
                            policy == .shared && accounts[0] != nil ? [CustomerKey(.account, "x-1")] : []
                        #expect(found.owners == buyer.union([.u1]), "\(policy) \(accounts) \(handed) \(order)")
                        #expect(found.leads == [.u1], "\(policy) \(accounts) \(handed) \(order)")
                    }
                }
            }
        }
    }

    @Test("of two customers who hand in purchases of a line the policy decides, whatever was known by then")
    func twoCustomers() {
        for count in 1...3 {
            for accounts in Self.accounts(count) {
                let answers = Self.answers(accounts)
                for (first, second) in (0..<count).flatMap({ one in (0..<count).map { (one, $0) } }) {
                    for order in permutations(of: Array(-2..<count)) {
                        let isSecondLast = (order.firstIndex(of: -1) ?? 0) > (order.firstIndex(of: -2) ?? 0)
                        let arrivals = order.map { number in
                            switch number {
                            case -2: Arrival.links(handedIn("u-1", Self.key(first)))
                            case -1: Arrival.links(handedIn("u-2", Self.key(second)))
                            default: Arrival.answer(number)
                            }
                        }
                        let (earlier, later): (CustomerKey, CustomerKey) = isSecondLast ? (.u1, .u2) : (.u2, .u1)
                        let context = "\(accounts) \(first) \(second) \(order)"

                        #expect(Self.owners(arrivals, answers, .latestBuyer).owners == [later], "\(context)")
                        #expect(Self.owners(arrivals, answers, .firstBuyer).owners == [earlier], "\(context)")
                        #expect(
                            Self.owners(arrivals, answers, .shared).owners.isSuperset(of: [.u1, .u2]), "\(context)")
                    }
                }
            }
        }
    }

    @Test("an id alone takes nothing from a customer, under any policy")
    func idAlone() {
        for accounts in Self.accounts(2) {
            let answers = Self.answers(accounts)
            for order in permutations(of: [0, 1, -2]) {
                let arrivals = order.map { number in
                    number < 0 ? Arrival.links(handedIn("u-1", Self.key(1))) : .answer(number)
                }
                for policy in OwnershipPolicy.allCases {
                    let attempts = arrivals + [.links(handedIn("u-2", Self.key(0), basis: .id))]
                    let owners = Self.owners(attempts, answers, policy).owners

                    #expect(owners.contains(.u1) && !owners.contains(.u2), "\(policy) \(accounts) \(order)")
                }
            }
            let unclaimed = Self.owners(
                [.links(handedIn("u-2", Self.key(0), basis: .id)), .answer(0), .answer(1)], answers, .latestBuyer)
            #expect(unclaimed.owners == [.u2])
        }
    }

    @Test("under first-buyer a purchase with another app user than the first one gives the line to nobody else")
    func otherAppUser() {
        let answers = Self.answers(["x-1", "x-2"])
        for order in permutations(of: [0, 1, -1]) {
            let arrivals = order.map { $0 < 0 ? Arrival.links(handedIn("u-2", Self.key(1))) : .answer($0) }

            #expect(Self.owners(arrivals, answers, .firstBuyer).owners == [CustomerKey(.account, "x-1")], "\(order)")
            #expect(Self.owners(arrivals, answers, .latestBuyer).owners == [.u2], "\(order)")
        }
    }

    @Test("under first-buyer an app user that the backend has linked to another customer keeps the purchase")
    func linkedAppUser() {
        let answers = Self.answers(["x-1"])
        let owner = linked("u-1", CustomerKey(.account, "x-1"))
        for order in permutations(of: [0, -1, -2])
        where (order.firstIndex(of: -1) ?? 0) < (order.firstIndex(of: -2) ?? 0) {
            let arrivals = order.map { number in
                switch number {
                case -1: Arrival.links(owner)
                case -2: Arrival.links(handedIn("u-2", Self.key(0)))
                default: Arrival.answer(number)
                }
            }

            #expect(Self.owners(arrivals, answers, .firstBuyer).owners == [.u1], "\(order)")
        }
    }

    @Test(
        "who names the app user of a line gets it from who handed it in without, in any order; a later app user does not",
        arguments: 1...4)
    func namedAppUser(count: Int) {
        let answers = Self.answers(["x-1"] + Array(repeating: "x-2", count: count - 1))
        let own = handedIn("u-1", Self.key(0), CustomerKey(.account, "x-1"))
        let copied = handedIn("u-2", Self.key(0))
        let later = handedIn("u-2", Self.key(count - 1), CustomerKey(.account, "x-2"))
        for order in permutations(of: Array(answers.indices) + [-1, -2]) {
            func owners(_ other: LinkStatement, _ policy: OwnershipPolicy) -> Set<CustomerKey> {
                let arrivals = order.map { $0 >= 0 ? Arrival.answer($0) : .links($0 == -1 ? own : other) }
                return Self.owners(arrivals, answers, policy).owners
            }
            let last: CustomerKey = order.last { $0 < 0 } == -1 ? .u1 : .u2

            // With several app users, who hands in without naming one is none of them.
            #expect(owners(copied, .firstBuyer) == [.u1], "\(order)")
            if count > 1 { #expect(owners(later, .firstBuyer) == [.u1], "\(order)") }
            #expect(owners(copied, .latestBuyer) == [last], "\(order)")
            #expect(owners(copied, .shared).isSuperset(of: [.u1, .u2]), "\(order)")
        }
    }

    @Test("a statement of the backend names the app user of the first purchase, too, or does not count")
    func statement() {
        let answers = Self.answers(["x-1"])
        for order in permutations(of: [0, -1]) {
            func owners(_ statement: LinkStatement) -> Set<CustomerKey> {
                Self.owners(order.map { $0 < 0 ? .links(statement) : .answer($0) }, answers, .firstBuyer).owners
            }

            #expect(owners(linked("u-2", Self.key(0))) == [CustomerKey(.account, "x-1")])
            #expect(owners(linked("u-2", Self.key(0), CustomerKey(.account, "x-1"))) == [.u2])
            #expect(owners(linked("u-2", Self.key(0), basis: .transfer)) == [.u2])
        }
    }

    @Test("a customer has any number of purchases, and a complete statement replaces them")
    func manyPurchases() {
        var statements: [Int64: LinkStatement] = [:]
        for number in 0..<300 {
            statements[Int64(number + 1)] = handedIn("u-1", CustomerKey(.subscription, "coins-\(number)"))
        }
        let links = CustomerLinks(statements)
        #expect((0..<300).allSatisfy { links.inForce(on: "coins-\($0)") == ["u-1"] })

        statements[500] = linked("u-1", CustomerKey(.subscription, "coins-7"))
        statements[501] = handedIn("u-1", CustomerKey(.subscription, "coins-8"))
        let replaced = CustomerLinks(statements)
        #expect((0..<300).filter { !replaced.inForce(on: "coins-\($0)").isEmpty } == [7, 8])
    }

    @Test("what continues an expired purchase belongs to its owner, by link and by account alike")
    func boughtAgain() {
        for (first, again) in [("x-1", nil), (nil, nil), ("x-1", "x-1")] as [(String?, String?)] {
            var story = PlayStory()
            story.answer(
                "2025-01-01T00:00:03Z", .expired, token: Self.token(0), start: "2025-01-01", until: "2025-02-01",
                order: "G1"
            ) { $0.obfuscatedAccountId = first }
            story.answer(
                "2025-06-01T00:00:03Z", .active, token: Self.token(1), start: "2025-06-01", until: "2025-07-01",
                order: "G2"
            ) {
                $0.obfuscatedAccountId = again
                $0.expiredPurchaseToken = Self.token(0)
                $0.expiredAccountId = first
            }
            for order in permutations(of: [0, 1, -1]) {
                for statement in [handedIn("u-14", Self.key(0)), linked("u-14", Self.key(0), basis: .transfer)] {
                    let arrivals = order.map { $0 < 0 ? Arrival.links(statement) : .answer($0) }
                    for policy in [OwnershipPolicy.latestBuyer, .firstBuyer] {
                        let found = Self.owners(arrivals, story.events, policy)

                        #expect(
                            found.owners == [CustomerKey(.link, "u-14")], "\(policy) \(order) \(statement.basis)")
                        // A purchase that was handed in says who the app user is; the word of a backend does not.
                        let user = first.map {
                            CustomerKey(
                                statement.basis == .purchase ? .link : .account,
                                statement.basis == .purchase ? "u-14" : $0)
                        }
                        #expect(found.user == user, "\(policy) \(order) \(statement.basis)")
                    }
                }
            }
        }
    }

    /// What an answer about a purchase outside the app says of the expired one, besides its account.
    @Test(
        "what continues a purchase by its account alone belongs to its owner, whoever says so",
        arguments: [(nil, nil), ("never-seen", nil), (nil, "x-1")] as [(String?, String?)])
    func boughtAgainByAccount(expired: String?, acknowledgedAs: String?) {
        var story = PlayStory()
        story.answer(
            "2025-01-01T00:00:03Z", .expired, token: Self.token(0), start: "2025-01-01", until: "2025-02-01",
            order: "G1"
        ) { $0.obfuscatedAccountId = "x-1" }
        story.answer(
            "2025-06-01T00:00:03Z", .active, token: Self.token(1), start: "2025-06-01", until: "2025-07-01", order: "G2"
        ) {
            $0.expiredPurchaseToken = expired
            $0.expiredAccountId = "x-1"
        }
        // Once it is acknowledged, the context is gone, and the purchase may have the account.
        story.answer(
            "2025-06-02T00:00:03Z", .active, token: Self.token(1), start: "2025-06-01", until: "2025-07-01", order: "G2"
        ) {
            $0.isAcknowledged = true
            $0.obfuscatedAccountId = acknowledgedAs
        }
        let answers = story.events
        for order in permutations(of: [0, 1, 2, -1]) {
            for statement in [handedIn("u-14", Self.key(0)), linked("u-14", Self.key(0), basis: .transfer)] {
                let arrivals = order.map { $0 < 0 ? Arrival.links(statement) : .answer($0) }
                for policy in [OwnershipPolicy.latestBuyer, .firstBuyer] {
                    let found = Self.owners(arrivals, answers, policy)
                    let context = "\(policy) \(order) \(statement.basis)"

                    #expect(found.owners == [CustomerKey(.link, "u-14")], "\(context)")
                    #expect(found.leads.subtracting([nil]) == [CustomerKey(.link, "u-14")], "\(context)")
                    let user = CustomerKey(statement.basis == .purchase ? .link : .account, "u-14")
                    #expect(found.user == (user.kind == .link ? user : CustomerKey(.account, "x-1")), "\(context)")
                }
            }
            let known = order.filter { $0 >= 0 }.map(Arrival.answer)
            // Without a word of a backend, the app user owns both.
            #expect(Self.owners(known, answers, .latestBuyer).owners == [CustomerKey(.account, "x-1")], "\(order)")
            let linkedUser = known + [.links(linked("u-3", CustomerKey(.account, "x-1")))]
            #expect(Self.owners(linkedUser, answers, .latestBuyer).owners == [CustomerKey(.link, "u-3")], "\(order)")
        }
    }

    @Test("what continues purchases of several owners by their account alone stays with the app user")
    func boughtAgainByAccountOfSeveral() {
        var story = PlayStory()
        for (number, month) in ["01", "02", "06"].enumerated() {
            story.answer(
                "2025-\(month)-01T00:00:03Z", .active, token: Self.token(number), start: "2025-\(month)-01",
                until: "2025-\(month)-28", order: "G\(number)"
            ) {
                if number < 2 { $0.obfuscatedAccountId = "x-1" } else { $0.expiredAccountId = "x-1" }
            }
        }
        let arrivals =
            story.events.indices.map(Arrival.answer) + [
                .links(handedIn("u-1", Self.key(0))), .links(handedIn("u-2", Self.key(1))),
            ]

        let owners = Self.owners(arrivals, story.events, .latestBuyer).owners
        #expect(owners == [.u1, .u2, CustomerKey(.account, "x-1")])
    }

    /// Two purchases that do not continue one another.
    private static func separate(_ accounts: [String?]) -> [Event] {
        var story = PlayStory()
        for (number, account) in accounts.enumerated() {
            story.answer(
                "2025-0\(number + 1)-01T00:00:03Z", .active, token: token(number), start: "2025-0\(number + 1)-01",
                until: "2025-0\(number + 1)-28", order: "G\(number)"
            ) { $0.obfuscatedAccountId = account }
        }
        return story.events
    }

    @Test("an app user that nobody linked leads to the customer who handed in all of the purchases, and to nobody else")
    func appUser() {
        let (u1, x1) = (CustomerKey.u1, CustomerKey(.account, "x-1"))
        let one = [handedIn("u-1", Self.key(0))]
        let cases: [(name: String, [String?], [LinkStatement], leads: CustomerKey)] = [
            ("one purchase", ["x-1"], one, u1),
            ("both purchases", ["x-1", "x-1"], one + [handedIn("u-1", Self.key(1))], u1),
            ("another user's purchase", ["x-1", "x-2"], one, u1),
            ("one of two: whoever bought the other may be another", ["x-1", "x-1"], one, x1),
            ("one for each of two customers", ["x-1", "x-1"], one + [handedIn("u-2", Self.key(1))], x1),
            ("taken over by another customer", ["x-1"], one + [handedIn("u-2", Self.key(0))], x1),
            ("the word of a backend", ["x-1"], [linked("u-1", Self.key(0))], x1),
            ("linked", ["x-1"], one + [linked("u-3", x1)], CustomerKey(.link, "u-3")),
            ("linked before", ["x-1"], one + [linked("u-3", x1), linked("u-3")], x1),
        ]
        for (name, accounts, statements, leads) in cases {
            let answers = Self.separate(accounts)
            let all = answers.indices.map(Arrival.answer)
            for order in permutations(of: Array(0...answers.count)) {
                // The order of the links counts, but not when the answers arrive.
                let arrivals = order.flatMap { $0 == answers.count ? statements.map(Arrival.links) : [all[$0]] }
                let user = Self.owners(arrivals, answers, .latestBuyer).user

                #expect(user == leads, "\(name) \(order)")
            }
        }
        // Of two users of one subscription, neither leads to the customer of the other.
        let line = Self.answers(["x-1", "x-2"])
        let user = Self.owners([.answer(0), .answer(1), .links(handedIn("u-2", Self.key(1)))], line, .latestBuyer).user
        #expect(user == x1)
    }
}

extension CustomerLinks {
    fileprivate func inForce(on subscription: String) -> [String] {
        let facts = SubscriptionFacts(originalTransactionId: subscription)
        return Customers(of: [facts.ownershipEvidence()], links: self, policy: .latestBuyer).ownership
            .filter { $0.owner.kind == .link }.map(\.owner.id.text)
    }
}
