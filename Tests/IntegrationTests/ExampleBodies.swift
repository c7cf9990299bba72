import Encoding
import Foundation
import TestSupport

/// The two worked examples of the lifecycle rules as V1 bodies, with the times at which they arrived.
enum ExampleBodies {
    static let subscription = "1000000000000001"

    struct Sent {
        let receivedAt: String
        let body: V1Body
    }

    static func ms(_ date: String) -> Int64 {
        Instant(iso8601: date)?.milliseconds ?? 0
    }

    private static func row(_ id: Int, _ start: String, _ end: String, cancelled: String? = nil) -> V1Body.Row {
        V1Body.Row(
            "100000000000000\(id)", subscription: subscription, purchase: ms(start), expires: ms(end),
            cancelled: cancelled.map(ms))
    }

    private static func sent(
        _ date: String, _ type: String, _ rows: [V1Body.Row], autoRenew: Bool = true, changed: Bool = false,
        grace: String? = nil
    ) -> Sent {
        Sent(
            receivedAt: date + "T00:00:00Z",
            body: V1Body(
                type: type, rows: rows, subscription: subscription, autoRenew: autoRenew,
                changed: changed ? ms(date) : nil,
                graceUntil: grace.map(ms)))
    }

    /// The magazine subscriber: two months, a lapse, another month.
    static var magazine: [Sent] {
        let a = row(1, "2018-02-20", "2018-03-20")
        let b = row(2, "2018-03-20", "2018-04-20")
        let c = row(3, "2018-06-17", "2018-07-17")
        return [
            sent("2018-02-20", "INITIAL_BUY", [a]),
            sent("2018-03-20", "DID_RENEW", [b, a]),
            sent("2018-04-10", "DID_CHANGE_RENEWAL_STATUS", [b, a], autoRenew: false, changed: true),
            sent("2018-06-17", "DID_CHANGE_RENEWAL_STATUS", [c, b, a], changed: true),
        ]
    }

    /// The billing issue, with no grace, 3 days or 16 days.
    static func billingIssue(grace: String?) -> [Sent] {
        let a = row(1, "2018-02-20", "2018-03-20")
        let b = row(2, "2018-03-20", "2018-04-20")
        let isOldCycle = (grace ?? "") > "2018-05-05"
        let c = row(3, "2018-05-05", isOldCycle ? "2018-05-20" : "2018-06-05")
        return [
            sent("2018-02-20", "INITIAL_BUY", [a]),
            sent("2018-03-20", "DID_RENEW", [b, a]),
            sent("2018-04-20", "DID_FAIL_TO_RENEW", [b, a], grace: grace),
            sent("2018-05-05", "DID_RECOVER", [c, b, a]),
        ]
    }

    /// The input format of `subledger fold`: one `{"receivedAt","body"}` per line.
    static func jsonLines(_ sent: [Sent]) throws -> Data {
        var data = Data()
        for one in sent {
            data += Data("{\"receivedAt\":\"\(one.receivedAt)\",\"body\":".utf8)
            data += Data(try one.body.bytes)
            data += Data("}\n".utf8)
        }
        return data
    }
}
