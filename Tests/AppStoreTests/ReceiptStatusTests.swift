import AppStore
import Testing

/// Apple's table of status numbers.
@Suite("The status of an answer determines what is done about it")
struct ReceiptStatusTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let number: Int
        let production: ReceiptStatus.Action
        let sandbox: ReceiptStatus.Action

        init(_ number: Int, _ action: ReceiptStatus.Action, sandbox: ReceiptStatus.Action? = nil) {
            self.number = number
            production = action
            self.sandbox = sandbox ?? action
        }

        var testDescription: String { "\(number)" }
    }

    static let rows = [
        Row(0, .accept), Row(21000, .refuse), Row(21001, .retryThenRefuse), Row(21002, .retryThenRefuse),
        Row(21003, .refuse), Row(21004, .alarm), Row(21005, .retry), Row(21006, .accept),
        Row(21007, .askOtherHost, sandbox: .refuse), Row(21008, .refuse, sandbox: .askOtherHost), Row(21009, .retry),
        Row(21010, .accountDeleted), Row(21011, .retry), Row(21099, .retry), Row(21200, .retry), Row(1, .retry),
        Row(-1, .retry), Row(22000, .retry),
    ]

    @Test("outside 21100 to 21199 the number alone decides", arguments: rows)
    func table(_ row: Row) {
        let status = ReceiptStatus(number: row.number)

        for isRetryable in [nil, true, false] as [Bool?] {
            #expect(status.action(from: .production, isRetryable: isRetryable) == row.production)
            #expect(status.action(from: .sandbox, isRetryable: isRetryable) == row.sandbox)
        }
    }

    @Test("an internal error is retried unless Apple says not to", arguments: [21100, 21104, 21150, 21199])
    func internalErrors(number: Int) {
        let status = ReceiptStatus(number: number)

        for host in ReceiptHost.allCases {
            #expect(status.action(from: host, isRetryable: nil) == .retry)
            #expect(status.action(from: host, isRetryable: true) == .retry)
            #expect(status.action(from: host, isRetryable: false) == .refuse)
        }
    }

    @Test("whether to retry is read in all its spellings")
    func spellings() throws {
        for key in ["is-retryable", "is_retryable"] {
            for (value, expected) in [
                ("true", true), ("1", true), ("\"1\"", true), ("\"true\"", true), ("false", false), ("0", false),
                ("\"0\"", false), ("\"false\"", false), ("null", nil), ("\"\"", nil), ("[]", nil), ("2", nil),
            ] as [(String, Bool?)] {
                let answer = try ReceiptAnswer(decoding: Array("{\"status\":21199,\"\(key)\":\(value)}".utf8))

                #expect(answer.isRetryable == expected, "\(key): \(value)")
                #expect(answer.status.number == 21199)
            }
        }
        #expect(try ReceiptAnswer(decoding: Array("{\"status\":21199}".utf8)).isRetryable == nil)
    }

    @Test("each host refers to the other", arguments: ReceiptHost.allCases)
    func hosts(host: ReceiptHost) {
        #expect(host.other != host)
        #expect(host.other.other == host)
        #expect(host.environment.rawValue == host.rawValue)
    }

    @Test("a description tells the number and its meaning in one line")
    func description() {
        #expect("\(ReceiptStatus(number: 21004))" == "status 21004: the shared secret is not that of the app")
        #expect("\(ReceiptStatus(number: 21999))" == "status 21999: a status that Apple does not document")
    }
}
