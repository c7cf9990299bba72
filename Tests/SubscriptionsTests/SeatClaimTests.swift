import Encoding
import Subscriptions
import TestSupport
import Testing

/// Seats whose members the app invites, as Apple's documentation of 2026 describes them: no genuine transaction with seats was
/// seen. "ids may outnumber seats after a smaller renewal: the App Store then unclaims nothing by itself".
@Suite("Seats that a backend gives to customers")
struct SeatClaimTests {
    private static let purchaser = CustomerKey(.subscription, testSubscription)

    private static func seats(
        _ id: String, _ start: String, _ end: String, _ quantity: Int, isAdded: Bool = false, revoked: Int? = nil,
        statedAt: String? = nil
    ) -> Told {
        let refund = revoked.map { ",\"revokedSeatQuantity\":\($0)" } ?? ""
        let reason = isAdded ? ",\"additionalTransactionReason\":\"SEAT_ADDITION\"" : ""
        let text = "{\"multiSeatInfo\":{\"invitationManagement\":\"DEVELOPER\"\(refund)}\(reason)}"
        let transaction = row("100000000000000\(id)", start, end) {
            $0.quantity = quantity
            $0.signedDate = day(statedAt ?? start)
            $0.inAppOwnershipType = "PURCHASED"
            $0.additional = (try? JSONDocument(Array(text.utf8))).map { CanonicalJSON($0.root) }
        }
        return Told(statedAt ?? start, [transaction])
    }

    private static func seat(_ customer: String, _ at: String, isClaimed: Bool = true) -> Told {
        var told = Told(at, [])
        told.facts.seat = SeatStatement(
            originalTransactionId: testSubscription, customerId: customer, isClaimed: isClaimed)
        return told
    }

    /// Such as `u-1 2026-10-26 ever`.
    private static func held(_ told: [Told], _ arrival: Arrival = .inOrder) -> [String] {
        SeatClaims(of: SubscriptionFacts(arriving: arrival.arrange(told))).held.map { held in
            let end = held.until == .latest ? "ever" : String(held.until.description.prefix(10))
            return "\(held.customer.id.text) \(held.from.description.prefix(10)) \(end)"
        }
    }

    private static func customers(_ told: [Told], policy: OwnershipPolicy = .standard, linked: String? = nil)
        -> Customers
    {
        var statements: [Int64: LinkStatement] = [:]
        for (index, told) in told.enumerated() {
            if let seat = told.facts.seat { statements[Int64(100 + index)] = seat.link }
        }
        if let linked {
            statements[200] = LinkStatement(
                backendCustomerId: linked, links: [CustomerKey(.subscription, testSubscription)])
        }
        return Customers(
            of: [SubscriptionFacts(arriving: told).ownershipEvidence()], links: CustomerLinks(statements),
            policy: policy)
    }

    private static let bought = seats("1", "2026-10-25", "2026-11-25", 2)

    @Test("a customer has a seat from the claim until it is taken back", arguments: Arrival.allCases)
    func claim(_ arrival: Arrival) {
        let told = [
            Self.bought, Self.seat("u-1", "2026-10-26"), Self.seat("u-2", "2026-10-27"),
            Self.seat("u-1", "2026-11-02", isClaimed: false), Self.seat("u-1", "2026-11-05"),
        ]

        #expect(
            Self.held(told, arrival) == ["u-1 2026-10-26 2026-11-02", "u-2 2026-10-27 ever", "u-1 2026-11-05 ever"])
    }

    @Test("of more claims than seats, the oldest have them; a free seat goes to the oldest that waits")
    func waiting() {
        let told = [
            Self.bought, Self.seat("u-1", "2026-10-26"), Self.seat("u-2", "2026-10-27"), Self.seat("u-3", "2026-10-28"),
            Self.seat("u-4", "2026-10-29"), Self.seat("u-1", "2026-11-02", isClaimed: false),
        ]

        #expect(
            Self.held(told) == ["u-1 2026-10-26 2026-11-02", "u-2 2026-10-27 ever", "u-3 2026-11-02 ever"])
        let claims = SeatClaims(of: SubscriptionFacts(arriving: told))
        #expect(claims.waiting.map(\.customer.id.text) == ["u-4"])
        #expect(claims.standing.map(\.customer.id.text) == ["u-2", "u-3", "u-4"])
    }

    @Test(
        "seats that are added count at once; a smaller renewal takes the newest claims theirs",
        arguments: Arrival.allCases)
    func renewal(_ arrival: Arrival) {
        let told = [
            Self.bought, Self.seat("u-1", "2026-10-26"), Self.seat("u-2", "2026-10-27"), Self.seat("u-3", "2026-10-28"),
            Self.seats("2", "2026-11-05", "2026-11-25", 1, isAdded: true),
            Self.seats("3", "2026-11-25", "2026-12-25", 1),
        ]

        #expect(
            Self.held(told, arrival)
                == ["u-1 2026-10-26 ever", "u-2 2026-10-27 2026-11-25", "u-3 2026-11-05 2026-11-25"])
    }

    @Test("seats that are refunded go to nobody from the report on; taken back, the claims have them again")
    func refund() {
        let told = [
            Self.bought, Self.seat("u-1", "2026-10-26"), Self.seat("u-2", "2026-10-27"),
            Self.seats("1", "2026-10-25", "2026-11-25", 2, revoked: 1, statedAt: "2026-11-02"),
            Self.seats("1", "2026-10-25", "2026-11-25", 2, revoked: 0, statedAt: "2026-11-04"),
        ]

        #expect(Self.held(Array(told.prefix(4))) == ["u-1 2026-10-26 ever", "u-2 2026-10-27 2026-11-02"])
        #expect(
            Self.held(told) == ["u-1 2026-10-26 ever", "u-2 2026-10-27 2026-11-02", "u-2 2026-11-04 ever"])
    }

    @Test("between two periods the claims stand, so a purchase after a pause gives the same customers access")
    func pause() {
        let told = [
            Self.bought, Self.seat("u-1", "2026-10-26"), Self.seats("2", "2027-01-10", "2027-02-10", 1),
        ]
        let customers = Self.customers(told)
        let member = customers.subscriptions(
            of: CustomerKey(.link, "u-1"), among: [Subscription(arriving: told)])

        #expect(
            member.flatMap(\.access).map { Span($0.start, $0.end) } == [
                Span("2026-10-26", "2026-11-25"), Span("2027-01-10", "2027-02-10"),
            ])
    }

    @Test("the purchaser keeps the subscription, whatever the policy, and a member leads to himself")
    func owner() {
        let told = [Self.bought, Self.seat("u-1", "2026-10-26")]
        for policy in OwnershipPolicy.allCases {
            let customers = Self.customers(told, policy: policy)
            let owners = customers.ownership.filter { $0.reason != .seat }.map(\.owner)

            #expect(owners == [Self.purchaser], "\(policy)")
            #expect(customers.customer(Self.purchaser, at: day("2026-11-01")) == Self.purchaser)
            #expect(customers.customer(CustomerKey(.link, "u-1"), at: day("2026-11-01")) == CustomerKey(.link, "u-1"))
        }
        let linked = Self.customers(told, linked: "u-9")
        #expect(linked.ownership.map { "\($0.owner.id.text) \($0.reason)" } == ["u-9 link", "u-1 seat"])
    }

    @Test("a purchaser with a seat has access once")
    func purchaserWithSeat() {
        let told = [Self.bought, Self.seat("u-9", "2026-10-26")]
        let customers = Self.customers(told, linked: "u-9")

        #expect(customers.ownership.map { "\($0.owner.id.text) \($0.reason)" } == ["u-9 link"])
    }

    @Test("claims are facts: their JSON is read back, and a claim before any purchase gives nothing")
    func facts() throws {
        let told = [Self.bought, Self.seat("u-1", "2026-10-26"), Self.seat("u-2", "2026-10-26", isClaimed: false)]
        let facts = SubscriptionFacts(arriving: told)
        let read = try SubscriptionFacts(
            originalTransactionId: testSubscription, json: try JSONDocument(facts.canonicalBytes).root)
        var writer = JSONWriter()
        writer.object { told[1].facts.writeMembers(to: &$0) }

        #expect(read == facts)
        #expect(try Facts(json: try JSONDocument(writer.bytes).root) == told[1].facts)
        #expect(
            try EventFacts(json: try JSONDocument(writer.bytes).root).bySubscription.keys.sorted() == [testSubscription]
        )
        #expect(Self.held([Self.seat("u-1", "2026-10-20")]) == [])
        #expect(Self.held([Self.seat("u-1", "2026-10-20"), Self.bought]) == ["u-1 2026-10-25 ever"])
    }

    @Test("ten thousand claims are folded in a moment")
    func many() {
        var facts = SubscriptionFacts(originalTransactionId: testSubscription)
        let size = 5000
        let told =
            [Self.seats("1", "2026-10-25", "2026-11-25", size)]
            + (0..<size * 2).map { number in
                var told = Self.seat("u-\(number % size)", "2026-10-26", isClaimed: number < size)
                told.occurredAt = told.occurredAt.advanced(byMilliseconds: Int64(number))
                return told
            }
        for (index, told) in told.enumerated() {
            facts.add(
                Delivery(told: told, receivedAt: SubscriptionFacts.arrival(index), position: Int64(index + 1)))
        }
        let start = ContinuousClock.now
        let claims = SeatClaims(of: facts)

        #expect(claims.held.count == size && claims.standing.isEmpty)
        #expect(.now - start < .seconds(20))
    }
}
