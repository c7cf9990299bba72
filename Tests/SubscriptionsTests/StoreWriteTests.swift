import Encoding
import Testing

@testable import Subscriptions

@Suite("Changes at the store that operators ask for")
struct StoreWriteTests {
    private static let terms = StoreWrite.ExtensionTerms(days: 7, reason: .outage)

    private static func write(_ change: StoreWrite.Change, _ answer: StoreWrite.Answer? = nil) -> StoreWrite {
        StoreWrite(change, requestIdentifier: "r-1", by: "alice", reason: "outage of \"Monday\"", answer: answer)
    }

    private static let writes: [StoreWrite] = [
        write(.extend(originalTransactionId: "1", terms)),
        write(
            .extend(originalTransactionId: "1", terms),
            StoreWrite.Answer(
                .accepted, effectiveDate: Instant(milliseconds: 1_793_491_200_000), webOrderLineItemId: "7")),
        write(.extendAll(productId: "p", storefronts: [], terms)),
        write(
            .extendAll(productId: "p", storefronts: ["USA", "DEU"], terms),
            StoreWrite.Answer(.refused, errorCode: 4_000_028, httpStatus: 400)),
        write(
            .setAccountToken(originalTransactionId: "1", appAccountToken: "t"),
            StoreWrite.Answer(.unknown, problem: "timeout")),
        StoreWrite(
            .extend(originalTransactionId: "1", terms), requestIdentifier: "r-1", by: "alice", reason: "outage",
            idempotency: StoreWrite.IdempotencyKey("case \"1\"", requestDigest: "00ff")),
    ]

    private static let purchase = StoreWrite.PlaySubject(originalTransactionId: "t-1", purchaseToken: "t-2")
    private static let writesToGoogle: [StoreWrite] = [
        write(.cancel(purchase)), write(.revoke(purchase, isProrated: false)),
        write(.revoke(purchase, isProrated: true), StoreWrite.Answer(.refused, httpStatus: 400, problem: "gone")),
        write(.defer(purchase, days: 10, etag: "e")),
        write(.refund(originalTransactionId: "t-1", orderId: "GPA.1", revokes: true)),
        write(.refund(originalTransactionId: "t-1", orderId: "GPA.1", revokes: false), StoreWrite.Answer(.accepted)),
    ]

    @Test("the canonical text of each is read back to the same value", arguments: writes + writesToGoogle)
    func roundTrip(write: StoreWrite) throws {
        let document = try JSONDocument(write.canonicalText)
        let facts = Facts(transactions: [], renewals: [], write: write)
        var writer = JSONWriter()
        writer.object { facts.writeMembers(to: &$0) }

        #expect(try StoreWrite(json: document.root) == write)
        #expect(try Facts(json: JSONDocument(writer.bytes).root) == facts)
    }

    @Test("only the request has the key by which a repeated one is recognised")
    func key() throws {
        let request = try #require(Self.writes.last)

        #expect(
            String(decoding: request.canonicalText, as: UTF8.self).hasSuffix(
                #""reason":"outage","idempotencyKey":"case \"1\"","requestDigest":"00ff"}"#))
        #expect(request.answered(StoreWrite.Answer(.accepted)).idempotency == nil)
    }

    @Test("the text has Apple's names, who and why")
    func text() {
        #expect(
            Self.writes.prefix(2).map { String(decoding: $0.canonicalText, as: UTF8.self) } == [
                #"{"action":"extend","originalTransactionId":"1","extendByDays":7,"extendReasonCode":3,"#
                    + #""requestIdentifier":"r-1","by":"alice","reason":"outage of \"Monday\""}"#,
                #"{"action":"extend","originalTransactionId":"1","extendByDays":7,"extendReasonCode":3,"#
                    + #""requestIdentifier":"r-1","by":"alice","reason":"outage of \"Monday\"","#
                    + #""answer":{"result":"accepted","effectiveDate":"2026-11-01T00:00:00.000Z","#
                    + #""webOrderLineItemId":"7"}}"#,
            ])
    }

    @Test("a change on Google Play names the subscription, the purchase or order, and what is wanted")
    func google() {
        #expect(
            String(decoding: Self.writesToGoogle[3].canonicalText, as: UTF8.self)
                == #"{"action":"defer","originalTransactionId":"t-1","purchaseToken":"t-2","deferByDays":10,"etag":"e","#
                + #""requestIdentifier":"r-1","by":"alice","reason":"outage of \"Monday\""}"#)
        #expect(Self.writesToGoogle.map(\.change.subject) == Array(repeating: "t-1", count: 6))
        #expect(Self.writesToGoogle.map(\.change.isAddition) == [false, false, false, true, false, false])
    }

    @Test("a request is open until it is accepted or refused")
    func isOpen() {
        #expect(Self.writes.map(\.isOpen) == [true, false, true, false, true, true])
    }

    @Test("an event of one is about no subscription, and its kind says whether it has an answer")
    func event() {
        let events = Self.writes.prefix(2).map {
            $0.event(
                environment: .sandbox, app: "a", receivedAt: .earliest,
                dedupeKey: DedupeKey(bytes: [UInt8](repeating: 0, count: 32)))
        }

        #expect(events.map(\.kind) == [.writeRequest, .writeAnswer])
        #expect(events.allSatisfy { $0.source == .operator && $0.subscriptions.isEmpty && $0.hasUniqueKey })
        #expect(events.allSatisfy { $0.facts.bySubscription.isEmpty })
    }

    @Test(
        "a text without what it must have is unreadable",
        arguments: [
            "{}", #"{"action":"delete"}"#,
            #"{"action":"extend","originalTransactionId":"1","extendByDays":7,"extendReasonCode":4,"requestIdentifier":"r","by":"a","reason":"b"}"#,
            #"{"action":"extend","originalTransactionId":"1","extendByDays":7,"extendReasonCode":3,"by":"a","reason":"b"}"#,
            #"{"action":"set_account_token","originalTransactionId":"1","appAccountToken":"t","requestIdentifier":"r","by":"a","reason":"b","answer":{}}"#,
        ])
    func unreadable(text: String) throws {
        let document = try JSONDocument(Array(text.utf8))

        #expect(throws: FactsError.self) { try StoreWrite(json: document.root) }
    }
}
