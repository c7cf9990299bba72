import Encoding
import Subscriptions
import TestSupport
import Testing

/// The rules again, day by day and by searching lists: no intervals, no groups, no sorting by keys.
private struct OwnershipModel {
    struct Purchase {
        let subscription: Int
        let store: Int
        let day: Int
        let token: Int?
    }

    struct Statement {
        let customer: Int
        let keys: [Key]
    }

    enum Key: Hashable {
        case subscription(Int)
        case token(Int)
        case store(Int)
    }

    enum Person: Hashable {
        case customer(Int)
        case token(Int)
        /// The store account of a subscription, by its smallest one.
        case subscription(Int)
    }

    let purchases: [Purchase]
    let statements: [Statement]
    let policy: OwnershipPolicy

    /// Who holds a link on the key after all statements, the latest last.
    private func holders(_ key: Key) -> [(customer: Int, place: Int)] {
        var holders: [(customer: Int, place: Int)] = []
        for (place, statement) in statements.enumerated() {
            holders.removeAll { $0.customer == statement.customer }
            guard statement.keys.contains(key) else { continue }
            if policy != .shared { holders = [] }
            holders.append((statement.customer, place))
        }
        return holders
    }

    private func people(_ token: Int) -> Set<Person> {
        let holders = holders(.token(token))
        return holders.isEmpty ? [.token(token)] : Set(holders.map { .customer($0.customer) })
    }

    private func buyers(_ purchases: [Purchase], on day: Int) -> Set<Person> {
        let stated = purchases.filter { $0.token != nil }.sorted { $0.day < $1.day }
        guard let first = stated.first?.token else { return [] }
        switch policy {
        case .firstBuyer: return people(first)
        case .latestBuyer: return people(stated.last { $0.day <= day }?.token ?? first)
        case .shared: return stated.reduce(into: []) { $0.formUnion(people($1.token ?? first)) }
        }
    }

    /// Whether the purchase before it in its subscription, of those with a token, has the same token.
    private func isRenewal(_ purchase: Purchase) -> Bool {
        let earlier = purchases.filter {
            $0.subscription == purchase.subscription && $0.token != nil && $0.day < purchase.day
        }
        return purchase.token != nil && earlier.max { $0.day < $1.day }?.token == purchase.token
    }

    func owners(of subscription: Int, on day: Int) -> Set<Person> {
        let own = purchases.filter { $0.subscription == subscription }
        let linked = Set(holders(.subscription(subscription)).map { Person.customer($0.customer) })
        if policy == .shared {
            let all = linked.union(buyers(own, on: day))
            if !all.isEmpty { return all }
        } else {
            if !linked.isEmpty { return linked }
            let bought = buyers(own, on: day)
            if !bought.isEmpty { return bought }
        }
        guard let store = own.first?.store else { return [] }
        let storeHolders = holders(.store(store))
        if !storeHolders.isEmpty { return Set(storeHolders.map { .customer($0.customer) }) }
        let account = purchases.filter { $0.store == store }
        let bought = buyers(account.filter { !isRenewal($0) }, on: day)
        if !bought.isEmpty { return bought }
        let others = Set(account.map(\.subscription))
        let links = others.flatMap { holders(.subscription($0)) }.sorted { $0.place < $1.place }
        if policy == .shared, !links.isEmpty { return Set(links.map { .customer($0.customer) }) }
        if let last = links.last { return [.customer(last.customer)] }
        return [.subscription(others.min() ?? subscription)]
    }
}

@Suite("Ownership agrees with a day-by-day model")
struct OwnershipModelTests {
    @Test("random purchases and links in random order", arguments: 0..<10)
    func agreement(_ part: Int) {
        for number in 0..<125 {
            var random = TestSeed.generator(part * 1000 + number)
            let purchases = Self.purchases(&random)
            let statements = Self.statements(&random)
            let reports = purchases.enumerated().map { Self.report($0.element, $0.offset) }.shuffled(using: &random)
            let placed = Dictionary(
                uniqueKeysWithValues: statements.enumerated().map {
                    (Int64(100 + $0.offset), Self.statement($0.element))
                })
            for policy in OwnershipPolicy.allCases {
                let model = OwnershipModel(purchases: purchases, statements: statements, policy: policy)

                let run = OwnershipRun(reports, placed, policy)

                for subscription in Set(purchases.map(\.subscription)) {
                    for date in stride(from: 0, through: 40, by: 2) {
                        let expected = Set(model.owners(of: subscription, on: date).map(Self.key))
                        #expect(
                            run.owners(of: Self.id(subscription), at: Self.instant(date)) == expected,
                            "story \(part * 1000 + number), \(policy), day \(date), subscription \(subscription)")
                    }
                }
            }
        }
    }

    /// Three subscriptions of two store accounts, with purchases on different days.
    private static func purchases(_ random: inout SeededGenerator) -> [OwnershipModel.Purchase] {
        let stores = (0..<3).map { _ in Int.random(in: 0..<2, using: &random) }
        let days = Array(1...39).shuffled(using: &random).prefix(Int.random(in: 1...6, using: &random))
        return days.map { day in
            let subscription = Int.random(in: 0..<3, using: &random)
            return OwnershipModel.Purchase(
                subscription: subscription, store: stores[subscription], day: day,
                token: random.chance(50) ? Int.random(in: 0..<3, using: &random) : nil)
        }
    }

    private static func statements(_ random: inout SeededGenerator) -> [OwnershipModel.Statement] {
        (0..<Int.random(in: 0...4, using: &random)).map { _ in
            let keys = (0..<Int.random(in: 0...2, using: &random)).map { _ -> OwnershipModel.Key in
                switch Int.random(in: 0..<3, using: &random) {
                case 0: .subscription(Int.random(in: 0..<3, using: &random))
                case 1: .token(Int.random(in: 0..<3, using: &random))
                default: .store(Int.random(in: 0..<2, using: &random))
                }
            }
            return OwnershipModel.Statement(customer: Int.random(in: 0..<3, using: &random), keys: keys)
        }
    }

    private static func id(_ subscription: Int) -> String { "100000000000000\(subscription)" }

    private static func token(_ token: Int) -> String { "aaaaaaaa-0000-4000-8000-00000000000\(token)" }

    private static func instant(_ date: Int) -> Instant {
        day("2026-01-01").advanced(byMilliseconds: Int64(date) * 86_400_000)
    }

    private static func key(_ person: OwnershipModel.Person) -> CustomerKey {
        switch person {
        case .customer(let number): CustomerKey(.link, "u-\(number)")
        case .token(let number): CustomerKey(.account, token(number))
        case .subscription(let number): CustomerKey(.subscription, id(number))
        }
    }

    private static func report(_ purchase: OwnershipModel.Purchase, _ number: Int) -> Told {
        let start = instant(purchase.day)
        var transaction = row(
            "\(number)", start, start.advanced(byMilliseconds: 5 * 86_400_000), subscription: id(purchase.subscription))
        transaction.appAccountToken = purchase.token.map(token)
        transaction.appTransactionId = "700\(purchase.store)"
        transaction.signedDate = start
        return Told(start, [transaction])
    }

    private static func statement(_ statement: OwnershipModel.Statement) -> LinkStatement {
        LinkStatement(
            backendCustomerId: "u-\(statement.customer)",
            links: statement.keys.map { key in
                switch key {
                case .subscription(let number): CustomerKey(.subscription, id(number))
                case .token(let number): CustomerKey(.account, token(number))
                case .store(let number): CustomerKey(.appTransaction, "700\(number)")
                }
            })
    }
}
