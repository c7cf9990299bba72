import AppStore
import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("The rows of an answer of verifyReceipt are facts")
struct ReceiptRowTests {
    private let row = newRow("1000000000000001", "2022-01-01", "2022-02-01")
    private let next = newRow("1000000000000002", "2022-02-01", "2022-03-01")

    @Test("an answer states what V1 states by the same rows")
    func sameRows() throws {
        let notification = try newBody("DID_RENEW", rows: [next, row]).event()
        let event = try receiptAnswer([next, row], own: [row], pending: [pending()], at: "2022-02-02").receiptEvent()

        #expect(event.transactions == notification.transactions)
        #expect(event.renewals.map(\.autoRenewStatus) == [true])
        #expect(event.renewals.map(\.autoRenewProductId) == [monthly])
        #expect(event.occurredAt == day("2022-02-02"))
        #expect(event.defects == [])
    }

    @Test("an event is of one answer: equal answers at different times are different events")
    func dedupeKey() throws {
        let answer = receiptAnswer([row], at: "2022-01-02")
        let first = try answer.verifiedReceipt(receivedAt: day("2022-01-02"))
        let again = try answer.verifiedReceipt(receivedAt: day("2022-01-02"))
        let later = try answer.verifiedReceipt(receivedAt: day("2022-01-02T00:00:00.001Z"))

        #expect(first.event == again.event)
        #expect(first.event.dedupeKey != later.event.dedupeKey)
        #expect(first.event.dedupeKey.bytes.count == 32)
        #expect(first.bodyDigest == later.bodyDigest)
        #expect(first.event.hasUniqueKey)
    }

    @Test("a refund that was reversed since the receipt was made does not count")
    func reversed() throws {
        let event = try receiptAnswer([row], own: [cancelled(row, "2022-01-10")], at: "2022-01-20").receiptEvent()

        #expect(event.transactions.map(\.revocationDate) == [nil])
        #expect(event.transactions.map(\.statesRevocation) == [true])
        let refund = try receiptAnswer([cancelled(row, "2022-01-10")], at: "2022-01-12").receiptEvent()
        #expect(fold([refund, event]).spans == [Span("2022-01-01", "2022-02-01")])
        // Received before the refund, it takes nothing back.
        #expect(fold([event, refund]).spans == [])
    }

    @Test("a refund that the device does not know yet counts")
    func refunded() throws {
        let event = try receiptAnswer([cancelled(row, "2022-01-10", reason: "1")], own: [row], at: "2022-01-20")
            .receiptEvent()

        #expect(event.transactions.map(\.revocationDate) == [day("2022-01-10")])
        #expect(event.transactions.map(\.revocationReason) == [1])
        #expect(fold([event]).access == [])
    }

    @Test("a purchase that only the receipt itself contains is kept, and says nothing about a refund")
    func ownRows() throws {
        let consumable = newRow("1000000000000005", "2022-01-05", "2022-01-06", subscription: "1000000000000005")
            .without("expires_date", "expires_date_ms", "web_order_line_item_id", "subscription_group_identifier")
        let refund = try receiptAnswer([cancelled(consumable, "2022-01-10")], at: "2022-01-12").receiptEvent()
        let event = try receiptAnswer([row], own: [consumable, row], at: "2022-01-20").receiptEvent()

        #expect(event.transactions.map(\.transactionId) == ["1000000000000001", "1000000000000005"])
        #expect(event.transactions.map(\.statesRevocation) == [true, false])
        for order in permutations(of: [refund, event]) {
            #expect(fold(order, subscription: "1000000000000005").transactions.map(\.transaction.isRefunded) == [true])
        }
    }

    @Test("an answer without rows takes nothing away", arguments: ["[]", "null", "absent"])
    func empty(own: String) throws {
        let known = try newBody("DID_RENEW", rows: [next, row]).event()
        var answer = receiptAnswer([], at: "2022-02-02")
            .without("latest_receipt_info", "pending_renewal_info", "latest_receipt")
        var receipt = answer["receipt"]
        receipt?["in_app"] = own == "absent" ? nil : .raw(own)
        answer["receipt"] = receipt

        let event = try answer.receiptEvent()

        #expect(event.transactions == [] && event.renewals == [] && event.defects == [])
        #expect(fold([known, event]).spans == [Span("2022-01-01", "2022-03-01")])
    }

    @Test("numbers and flags may be texts, and texts may be numbers")
    func spellings() throws {
        let usual = receiptAnswer([row], pending: [pending()], at: "2022-01-02")
        let unusual = receiptAnswer(
            [
                row.with([
                    "transaction_id": 1_000_000_000_000_001, "quantity": 1, "is_trial_period": false,
                    "purchase_date_ms": .raw(String(day("2022-01-01").milliseconds)),
                ])
            ], pending: [pending().with(["auto_renew_status": 1])], at: "2022-01-02", status: "0"
        ).withReceipt(["adam_id": "1234567890", "app_item_id": ""])

        #expect(try unusual.receiptEvent() == usual.receiptEvent())
    }

    @Test("an answer about a transaction receipt is one flat row, with the renewal info beside it")
    func transactionReceipt() throws {
        let first = oldRow("1000000000000001", "2019-01-01", "2019-02-01")
        let latest = oldRow("1000000000000002", "2019-02-01", "2019-03-01")
        let answer = transactionAnswer(first, latest: latest)
        var renewal = RenewalInfo(originalTransactionId: testSubscription)
        renewal.productId = monthly
        renewal.autoRenewProductId = monthly
        renewal.autoRenewStatus = true

        let event = try answer.receiptEvent()

        // Such answers name no environment and have no date of their own.
        #expect(event.environment == .production)
        #expect(event.occurredAt == nil)
        #expect(event.transactions.map(\.transactionId) == ["1000000000000002", "1000000000000001"])
        #expect(event.transactions.map(\.expiresDate) == [day("2019-03-01"), day("2019-02-01")])
        #expect(event.transactions.map(\.statesRevocation) == [true, false])
        #expect(event.renewals == [renewal])
        #expect(event.defects == [])
        #expect(fold([event]).spans == [Span("2019-01-01", "2019-03-01")])
    }

    @Test("status 21006 is a valid transaction receipt whose subscription expired")
    func expired() throws {
        let row = oldRow("1000000000000001", "2019-01-01", "2019-02-01")
        let answer = transactionAnswer(row, status: 21006)
            .with(["auto_renew_status": 0, "expiration_intent": "1", "is_in_billing_retry_period": "0"])

        let verified = try answer.verifiedReceipt()

        #expect(verified.status.number == 21006)
        #expect(verified.event.transactions.map(\.statesRevocation) == [true])
        #expect(verified.event.renewals.map(\.autoRenewStatus) == [false])
        #expect(verified.event.renewals.map(\.expirationIntent) == [1])
        #expect(verified.event.renewals.map(\.isInBillingRetryPeriod) == [false])
        let subscription = fold([verified.event])
        // Renewal was on or off then, the answer only says that it is off now.
        #expect(subscription.status(at: day("2019-01-31")) == .active)
        #expect(subscription.status(at: day("2019-02-01")) == .expired)
    }

    @Test("an unreadable field is a defect of its own, and the rest is used")
    func defects() throws {
        let event = try receiptAnswer(
            [row.with(["expires_date_ms": "soon", "expires_date": "later"]), next, "no row"],
            own: [row.without("transaction_id")], pending: [pending().with(["auto_renew_status": "maybe"])],
            at: "2022-02-02"
        ).event(changing: ["latest_expired_receipt_info": "none"])

        #expect(
            event.defects.map(\.path).sorted() == [
                "latest_expired_receipt_info", "latest_receipt_info[0].expires_date_ms", "latest_receipt_info[2]",
                "pending_renewal_info[0].auto_renew_status", "receipt.in_app[0].transaction_id",
            ])
        #expect(event.transactions.map(\.transactionId) == ["1000000000000001", "1000000000000002"])
    }

    @Test("an answer without its date counts as given when it was received, and says so")
    func noDate() throws {
        let answer = receiptAnswer([row], at: "2022-01-02")
            .withReceipt(["request_date_ms": nil, "request_date": nil])

        let event = try answer.receiptEvent()

        #expect(event.occurredAt == nil)
        #expect(event.defects.map(\.path) == ["receipt.request_date_ms"])
    }

    @Test("an answer of more than 1 MiB is read in full")
    func large() throws {
        let rows = (0..<1500).map { number in
            newRow("\(2_000_000_000_000_000 + number)", "2022-01-01", "2022-02-01")
        }
        let receipt = String(repeating: "MIIB", count: 1 << 18)
        let answer = receiptAnswer(rows, at: "2022-01-02").with(["latest_receipt": .text(receipt)])

        let verified = try answer.verifiedReceipt()

        #expect(answer.bytes.count > 1 << 20)
        #expect(verified.event.transactions.count == 1500)
        #expect(verified.event.defects == [])
        #expect(verified.evidence.bytes == answer.bytes)
        #expect(verified.latestReceipt?.bytes.count == 3 << 18)
        let decoded = verified.evidence.pieces.compactMap { piece -> Int? in
            if case .base64(let text) = piece { text.bytes.count } else { nil }
        }
        #expect(decoded == [3 << 18])
    }
}

extension JSON {
    fileprivate func event(changing changes: KeyValuePairs<String, JSON>) throws -> Event {
        try with(changes).receiptEvent()
    }
}
