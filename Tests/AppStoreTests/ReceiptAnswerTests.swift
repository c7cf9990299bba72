import AppStore
import Encoding
import Subscriptions
import Testing

@Suite("Answers of verifyReceipt are decoded")
struct ReceiptAnswerTests {
    private func answer(_ text: String) throws -> ReceiptAnswer {
        try ReceiptAnswer(decoding: Array(text.utf8))
    }

    @Test(
        "a status is a number, or a number in a text",
        arguments: [("0", 0), ("\"0\"", 0), ("21007", 21007), ("\"21010\"", 21010), ("-1", -1), ("99999", 99999)])
    func status(text: String, number: Int) throws {
        #expect(try answer("{\"status\":\(text)}").status.number == number)
    }

    @Test(
        "a body without a readable status is not an answer",
        arguments: [
            "{}", "{\"status\":null}", "{\"status\":\"\"}", "{\"status\":\"ok\"}", "{\"status\":0.5}",
            "{\"status\":[0]}", "{\"status\":true}", "{\"status\":99999999999}", "{\"Status\":0}",
        ])
    func noStatus(text: String) {
        #expect(throws: UnreadableAnswer.noStatus) { try answer(text) }
    }

    @Test("a body that is not a whole JSON object is unreadable, and says why")
    func unreadable() throws {
        let whole = receiptAnswer([newRow("1000000000000001", "2022-01-01", "2022-02-01")], at: "2022-01-02").bytes

        #expect(throws: UnreadableAnswer.notAnObject) { try answer("[0]") }
        #expect(throws: UnreadableAnswer.notAnObject) { try answer("0") }
        for (text, label) in [("", "not_json"), ("<html>", "not_json"), ("{\"status\":0}}", "not_json")] {
            let problem = #expect(throws: UnreadableAnswer.self) { try answer(text) }
            #expect(problem?.label == label)
            #expect(problem?.description.contains("html") == false)
        }
        for length in [1, 12, whole.count / 2, whole.count - 1] {
            #expect(throws: UnreadableAnswer.cutOff) { try ReceiptAnswer(decoding: Array(whole[..<length])) }
        }
        #expect(try ReceiptAnswer(decoding: whole).status.number == 0)
    }

    @Test("app, environment and time are those of the decoded receipt")
    func head() throws {
        let answer = try ReceiptAnswer(decoding: receiptAnswer([], at: "2022-01-02T03:04:05.678Z").bytes)

        #expect(answer.bundleId == testBundle)
        #expect(answer.environment == .production)
        #expect(answer.requestDate == day("2022-01-02T03:04:05.678Z"))
        #expect(answer.latestReceipt?.base64 == "MHBsYWlubHkgYSB0ZXN0IHJlY2VpcHQ=")
        #expect(answer.latestReceipt?.style == .app)
    }

    @Test("an answer about an error has none of them")
    func error() throws {
        let answer = try answer("{\"status\":21003}")

        #expect(answer.bundleId == nil && answer.environment == nil && answer.requestDate == nil)
        #expect(answer.latestReceipt == nil)
    }

    @Test(
        "environments are read in any case, and unknown ones are kept apart",
        arguments: [
            ("Production", Environment.production), ("PROD", .production), ("sandbox", .sandbox), ("Xcode", .unknown),
        ])
    func environment(name: String, environment: Environment) throws {
        #expect(try answer("{\"status\":0,\"environment\":\"\(name)\"}").environment == environment)
    }

    @Test("a latest receipt that is no base64 is not used", arguments: ["\" \"", "\"MII...\"", "null", "7", "{}"])
    func latestReceipt(text: String) throws {
        #expect(try answer("{\"status\":0,\"latest_receipt\":\(text)}").latestReceipt == nil)
    }
}
