import Encoding
import Subscriptions

/// Logs of a few scripted facts, with their dates.
extension AnalystLog {
    static let app = "com.example.magazine"

    /// What one notification states.
    struct Stated: Sendable {
        let at: Instant
        let facts: Facts

        init(_ at: String, _ transactions: [Transaction], _ renewals: [RenewalInfo] = []) {
            self.at = date(at)
            facts = Facts(transactions: transactions, renewals: renewals)
        }
    }

    /// Midnight UTC of a date such as `2026-05-01`, or a full ISO 8601 instant.
    static func date(_ text: String) -> Instant {
        guard let instant = Instant(iso8601: text) else { preconditionFailure("\(text) is not a date") }
        return instant
    }

    /// A charge of 4.99 USD. The subscription's id is the transaction's up to the first hyphen.
    static func charge(
        _ id: String, _ start: String, _ end: String?, product: String = "monthly", reason: String = "RENEWAL",
        change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        let subscription = id.split(separator: "-").first.map(String.init) ?? id
        var transaction = Transaction(transactionId: id, originalTransactionId: subscription)
        transaction.productId = product
        transaction.type = "Auto-Renewable Subscription"
        transaction.purchaseDate = date(start)
        transaction.expiresDate = end.map { date($0) }
        transaction.transactionReason = reason
        transaction.price = 4_990
        transaction.currency = "USD"
        change(&transaction)
        return transaction
    }

    /// Appends the events of a production stream, the only one of the log, and folds them.
    static func fold(_ stated: [Stated], _ log: SimulatedLog) async throws {
        let events = stated.enumerated().map { index, stated in
            var writer = JSONWriter()
            writer.object { stated.facts.writeMembers(to: &$0) }
            let facts = String(decoding: writer.bytes, as: UTF8.self)
            return """
                (1, \(index + 1), '\(stated.at)', '\(stated.at)', 'apple-v2', 'other', sha256('\(index)'), '\(facts)',
                  sha256('{}'), sha256(''))
                """
        }
        try await log.script(
            """
            insert into subledger.stream (stream_id, app, environment) values (1, '\(app)', 'production');
            insert into subledger.stream_head (stream_id, position, chain) values (1, \(events.count), sha256(''));
            insert into subledger.event (
              stream_id, position, received_at, occurred_at, source, kind, dedupe_key, facts, body_sha256, chain
            )
            values \(events.joined(separator: ",\n"))
            """)
        try await fold(log)
    }
}
