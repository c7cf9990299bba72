import Encoding
import EventLog
import Subscriptions
import TestSupport
import Testing

/// `subledger verify` decodes the stored body again, so nothing beside it may count.
@Suite("The stored body of anything that a backend or an operator states is the same event")
struct StoredStatementTests {
    private static let stream = StreamKey(app: "com.example.app", environment: .production)
    private static let now = Instant(milliseconds: 1_790_000_000_000) ?? .latest

    private static func text(_ random: inout SeededGenerator) -> String {
        let pieces = [
            "a", "Z", "0", "\u{e9}", "e\u{301}", "\"", "\\", "\n", "\u{7f}", "\u{1F600}", "/", " ", "\u{feff}",
        ]
        return (0..<Int.random(in: 1...20, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }
            .joined()
    }

    @Test("customer links")
    func links() throws {
        var random = TestSeed.generator(2)
        for number in 0..<5000 {
            let kinds: [CustomerKey.Kind] = [.account, .appTransaction, .subscription]
            let links = (0..<Int.random(in: 0...5, using: &random)).map { _ in
                CustomerKey(kinds.randomElement(using: &random) ?? .account, Self.text(&random))
            }
            let stated = LinkStatement(backendCustomerId: Self.text(&random), links: links)
            let event = stated.event(
                environment: Self.stream.environment, app: Self.stream.app, receivedAt: Self.now)

            let again = try LinkStatement(json: try JSONDocument(stated.canonicalText).root)
            let read = again.event(environment: Self.stream.environment, app: Self.stream.app, receivedAt: Self.now)
            try #require(again.canonicalText == stated.canonicalText, "input \(number)")
            try #require(read == event && read.dedupeKey == event.dedupeKey, "input \(number)")
        }
    }

    @Test("requests of operators")
    func writes() throws {
        var random = TestSeed.generator(3)
        for number in 0..<5000 {
            let terms = StoreWrite.ExtensionTerms(
                days: Int.random(in: 1...90, using: &random),
                reason: StoreWrite.ExtensionReason.allCases.randomElement(using: &random) ?? .other)
            let changes: [StoreWrite.Change] = [
                .extend(originalTransactionId: Self.text(&random), terms),
                .extendAll(
                    productId: Self.text(&random), storefronts: [Self.text(&random), Self.text(&random)], terms),
                .setAccountToken(originalTransactionId: Self.text(&random), appAccountToken: Self.text(&random)),
            ]
            let answer = StoreWrite.Answer(
                StoreWrite.Answer.Result.allCases.randomElement(using: &random) ?? .unknown,
                errorCode: random.chance(50) ? Int64.random(in: -5...5, using: &random) : nil,
                httpStatus: random.chance(50) ? 500 : nil, problem: random.chance(50) ? Self.text(&random) : nil,
                effectiveDate: random.chance(50) ? Self.now : nil,
                webOrderLineItemId: random.chance(50) ? Self.text(&random) : nil)
            let key = StoreWrite.IdempotencyKey(Self.text(&random), requestDigest: Self.text(&random))
            let isAnswered = random.chance(50)
            let write = StoreWrite(
                changes.randomElement(using: &random) ?? changes[0], requestIdentifier: Self.text(&random),
                by: Self.text(&random), reason: Self.text(&random), answer: isAnswered ? answer : nil,
                idempotency: !isAnswered && random.chance(50) ? key : nil)
            let event = write.event(environment: Self.stream.environment, app: Self.stream.app, receivedAt: Self.now)

            let again = try StoreWrite(json: try JSONDocument(write.canonicalText).root)
            let read = again.event(environment: Self.stream.environment, app: Self.stream.app, receivedAt: Self.now)
            try #require(again.canonicalText == write.canonicalText, "input \(number)")
            try #require(read == event && read.dedupeKey == event.dedupeKey, "input \(number)")
        }
    }
}
