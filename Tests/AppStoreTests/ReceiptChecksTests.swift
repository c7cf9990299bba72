import AppStore
import Encoding
import Subscriptions
import Testing

@Suite("The four checks of a receipt")
struct ReceiptChecksTests {
    private let row = newRow("1000000000000001", "2022-01-01", "2022-02-01")
    private let next = newRow("1000000000000002", "2022-02-01", "2022-03-01")

    private func checks(
        _ answer: JSON, at date: String, registration: ReceiptChecks.Registration = .new,
        products: ProductCatalog = .empty
    ) throws -> ReceiptChecks {
        ReceiptChecks(
            of: try answer.verifiedReceipt(subscriptions: [testSubscription]), registration: registration,
            at: day(date), products: products)
    }

    private func text(_ checks: ReceiptChecks) -> String {
        var writer = JSONWriter()
        checks.write(to: &writer)
        return writer.text
    }

    @Test("a receipt is in force until the last expiry, which is excluded")
    func inForce() throws {
        let answer = receiptAnswer([row, next], at: "2022-02-02")

        #expect(try checks(answer, at: "2022-02-28T23:59:59.999Z").isInForce == true)
        #expect(try checks(answer, at: "2022-03-01").isInForce == false)
    }

    @Test("a refunded purchase is not in force, and grace is")
    func refunded() throws {
        let refund = receiptAnswer([row, cancelled(next, "2022-02-03")], at: "2022-02-04")
        let grace = receiptAnswer(
            [row],
            pending: [
                pending().with([
                    "is_in_billing_retry_period": "1", "grace_period_expires_date_ms": milliseconds("2022-02-17"),
                ])
            ], at: "2022-02-02")

        #expect(try checks(refund, at: "2022-02-05").isInForce == false)
        #expect(try checks(grace, at: "2022-02-16").isInForce == true)
        #expect(try checks(grace, at: "2022-02-17").isInForce == false)
    }

    @Test("any subscription of the receipt that gives access is enough, and none is not")
    func several() throws {
        let other = newRow("1000000000000009", "2022-02-01", "2022-04-01", subscription: "1000000000000009")

        #expect(try checks(receiptAnswer([row, other], at: "2022-02-02"), at: "2022-03-15").isInForce == true)
        #expect(try checks(receiptAnswer([], at: "2022-02-02"), at: "2022-03-15").isInForce == false)
    }

    @Test("an expired transaction receipt is genuine and not in force")
    func expired() throws {
        let answer = transactionAnswer(oldRow("1000000000000001", "2019-01-01", "2019-02-01"), status: 21006)

        let checks = try checks(answer, at: "2022-01-01", registration: .known)

        #expect(
            text(checks)
                == #"{"genuine":{"result":true,"status":21006},"ofThisApp":true,"registered":"known","inForce":false}"#)
    }

    @Test("the purchases of a deleted account are not in force", arguments: ReceiptChecks.Registration.allCases)
    func deleted(registration: ReceiptChecks.Registration) throws {
        let checks = try checks(["status": 21010], at: "2022-01-15", registration: registration)

        #expect(checks.isGenuine == false && checks.isInForce == false && checks.isOfThisApp == nil)
        #expect(
            text(checks)
                == #"{"genuine":{"result":false,"status":21010},"registered":"\#(registration.rawValue)","#
                + #""inForce":false}"#)
    }

    @Test("a refusal ends the checks where it was made")
    func refusals() throws {
        let genuine = try receiptAnswer([row], at: "2022-01-02").given()
        let forged = try JSON.object([("status", 21003)]).given()

        let other = ReceiptChecks(of: genuine, refusedBy: .otherApp)
        #expect(text(other) == #"{"genuine":{"result":true,"status":0},"ofThisApp":false}"#)
        let sandbox = ReceiptChecks(of: genuine, refusedBy: .environmentRefused(.sandbox))
        #expect(text(sandbox) == #"{"genuine":{"result":true,"status":0},"ofThisApp":true}"#)
        let refused = ReceiptChecks(of: forged, refusedBy: .status(ReceiptStatus(number: 21003)))
        #expect(text(refused) == #"{"genuine":{"result":false,"status":21003}}"#)
    }
}
