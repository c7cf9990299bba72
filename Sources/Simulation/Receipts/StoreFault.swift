import Encoding
import Subscriptions

/// A way in which the simulated store answers a request badly.
package enum StoreFault: Sendable, Hashable {
    /// The connection is closed without an answer.
    case dropped
    /// Status 503 with a text of a proxy.
    case overloaded
    /// The right answer, long after the request.
    case slow
    /// An error status instead of the answer.
    case status(Int, IsRetryable?)
    /// The answer ends in the middle.
    case cutOff
    /// The right answer with the `Content-Type` of a web page.
    case markedAsHTML
    /// More than 1 MiB of rows of an old sandbox account. Has no effect in production and on transaction receipts.
    case padded
    /// A genuine receipt without purchases. Has no effect on transaction receipts.
    case withoutPurchases

    /// A value of `is-retryable` in one of its spellings.
    package struct IsRetryable: Sendable, Hashable {
        package enum Spelling: Sendable, Hashable, CaseIterable {
            /// `"is-retryable":true`
            case flag
            /// `"is-retryable":1`
            case number
            /// `"is-retryable":"1"`
            case text
            /// `"is_retryable":true`
            case underscore
        }

        package let value: Bool
        package let spelling: Spelling

        package init(_ value: Bool, spelling: Spelling = .flag) {
            self.value = value
            self.spelling = spelling
        }

        func write(to writer: inout JSONWriter) {
            switch spelling {
            case .flag: writer.member("is-retryable", value)
            case .number: writer.member("is-retryable", value ? 1 : 0)
            case .text: writer.member("is-retryable", value ? "1" : "0")
            case .underscore: writer.member("is_retryable", value)
            }
        }
    }

    /// The name in counts of requests.
    package var name: String {
        switch self {
        case .dropped: "dropped"
        case .overloaded: "overloaded"
        case .slow: "slow"
        case .status(let number, _): "status_\(number)"
        case .cutOff: "cut_off"
        case .markedAsHTML: "marked_as_html"
        case .padded: "padded"
        case .withoutPurchases: "without_purchases"
        }
    }
}

/// The faults of a run, drawn by its seed and the simulated clock: a request that is repeated within ten minutes of the
/// clock has the same fault again.
package struct StoreFaults: Sendable {
    private let draw: FaultDraw

    /// - Parameter fraction: The fraction of requests with a fault, 0 to 1. Half of them are in outages of a host.
    package init(seed: UInt64, fraction: Double) {
        draw = FaultDraw(seed: seed, fraction: fraction)
    }

    /// - Parameter receipt: A number that depends on the receipt.
    package func fault(at instant: Instant, host: Subscriptions.Environment, receipt: UInt64) -> StoreFault? {
        let slot = FaultDraw.slot(of: instant)
        if var outage = draw.outage(slot, host == .production ? 0 : 1, .max - 3) { return Self.outage(&outage) }
        guard var single = draw.single(slot, receipt, .max - 4) else { return nil }
        return [StoreFault.cutOff, .markedAsHTML, .padded, .withoutPurchases].randomElement(using: &single)
    }

    private static func outage(_ random: inout SplitMix64) -> StoreFault {
        let spelling = StoreFault.IsRetryable.Spelling.allCases.randomElement(using: &random) ?? .flag
        let faults: [StoreFault] = [
            .dropped, .overloaded, .slow, .status(21005, nil), .status(21009, nil),
            .status(21199, StoreFault.IsRetryable(true, spelling: spelling)),
        ]
        return faults.randomElement(using: &random) ?? .overloaded
    }
}
