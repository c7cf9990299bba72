import Encoding
import Subscriptions

/// A subscription for which unsigned and signed sources give different access periods.
package struct SourceDifference: Sendable {
    package let app: String
    package let environment: String
    package let originalTransactionId: String
    /// Both kinds of sources report on the subscription from this instant on.
    package let from: Instant
    /// Until this instant, exclusive.
    package let until: Instant
    /// From version 1 and answers about receipts alone.
    package let unsigned: Side
    /// From signed sources alone.
    package let signed: Side

    package struct Side: Sendable {
        /// The periods between `from` and `until`, cut there.
        package let periods: [AccessPeriod]
        /// The positions of the events that they were computed from, ascending.
        package let events: [Int64]

        init(_ facts: SubscriptionFacts, products: ProductCatalog, from: Instant, until: Instant) {
            periods = Subscription(facts, products: products).access.compactMap { period in
                var period = period
                period.start = max(period.start, from)
                period.end = min(period.end, until)
                return period.start < period.end ? period : nil
            }
            events = facts.positions.sorted()
        }

        /// What is compared. Transactions are not: copies of a purchase have different ids.
        private struct Span: Hashable {
            let start: Instant
            let end: Instant
            let cause: AccessPeriod.Cause
            let productId: String?
        }

        func gives(sameAs other: Side) -> Bool { spans == other.spans }

        private var spans: Set<Span> {
            Set(
                periods.map { period in
                    Span(start: period.start, end: period.end, cause: period.cause, productId: period.productId)
                })
        }

        fileprivate func write(to writer: inout JSONWriter) {
            writer.object { writer in
                writer.key("periods")
                writer.array(periods) { $1.write(to: &$0) }
                writer.key("events")
                writer.array(events) { $0.value($1) }
            }
        }
    }

    /// One JSON object on one line.
    package var json: String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("environment", environment)
            writer.member("originalTransactionId", originalTransactionId)
            writer.member("from", from)
            writer.member("until", until)
            writer.key("unsigned")
            unsigned.write(to: &writer)
            writer.key("signed")
            signed.write(to: &writer)
        }
        return writer.text
    }
}
