import Encoding
import EventLog
import Postgres
import Subscriptions

/// Reads the recorded differences of a stream, with the rules that lead to the rebuilt rows.
struct DifferenceReader {
    let stream: ProjectionRebuild.Stream
    let connection: PostgresConnection

    private struct Row {
        let subscription: String
        let place: Int32
        let relation: String
        let key: String
        let live: JSONValue?
        let rebuilt: JSONValue?
    }

    func read(
        _ comparison: inout ProjectionRebuild.Comparison, _ onDifference: (RebuildDifference) throws -> Void
    ) async throws {
        var (subscription, place, key) = ("", Int32(0), "")
        var last: String?
        while true {
            try Task.checkCancellation()
            let rows = try await page(subscription, place, key)
            guard let end = rows.last else { return }
            (subscription, place, key) = (end.subscription, end.place, end.key)
            let rules = try await rules(Set(rows.map(\.subscription)).subtracting([""]))
            for row in rows {
                comparison.rows += 1
                if !row.subscription.isEmpty, row.subscription != last { comparison.subscriptions += 1 }
                last = row.subscription
                for difference in differences(row, rules[row.subscription] ?? []) { try onDifference(difference) }
            }
        }
    }

    private func page(_ subscription: String, _ place: Int32, _ key: String) async throws -> [Row] {
        try await connection.query(
            Step(
                DifferenceStatements.page,
                [
                    Parameter(stream.id), Parameter(subscription), Parameter(place), Parameter(key),
                    Parameter(Limits.batchEventsMax),
                ]), deadline: .now + Limits.tableWaitMax
        ).map { row in
            func json(_ column: Int) throws -> JSONValue? {
                try row.optional(JSONText.self, at: column).map { try JSONDocument($0.utf8).root }
            }
            return Row(
                subscription: try row.value(at: 0), place: try row.value(at: 1), relation: try row.value(at: 2),
                key: try row.value(at: 3), live: try json(4), rebuilt: try json(5))
        }
    }

    /// The rules by which the rebuilt subscriptions have their periods.
    private func rules(_ subscriptions: Set<String>) async throws -> [String: [AppliedRule]] {
        var rules: [String: [AppliedRule]] = [:]
        for row in try await connection.query(
            Step(DifferenceStatements.facts, [Parameter(stream.id), .array(subscriptions.sorted())]),
            deadline: .now + Limits.statementWaitMax)
        {
            let id: String = try row.value(at: 0)
            let facts = try SubscriptionFacts(
                originalTransactionId: id, json: try JSONDocument(try row.value(JSONText.self, at: 1).utf8).root)
            var applied = AppliedRules()
            _ = Subscription(
                facts, products: ProductCatalog(configured: try row.value(at: 2)), explaining: &applied)
            rules[id] = applied.all
        }
        return rules
    }

    private func differences(_ row: Row, _ rules: [AppliedRule]) -> [RebuildDifference] {
        func difference(_ field: String?, _ live: String?, _ rebuilt: String?) -> RebuildDifference {
            RebuildDifference(
                app: stream.app, environment: stream.environment,
                originalTransactionId: row.subscription.isEmpty ? nil : row.subscription, table: row.relation,
                row: row.key.isEmpty ? nil : row.key,
                change: row.live == nil ? .added : row.rebuilt == nil ? .removed : .changed, field: field, live: live,
                rebuilt: rebuilt, because: reasons(row, rules))
        }
        guard let live = row.live, let rebuilt = row.rebuilt else { return [difference(nil, nil, nil)] }
        var values: [String: JSONValue] = [:]
        for (name, value) in live.members { values[name.string ?? ""] = value }
        var fields: [RebuildDifference] = []
        for (key, value) in rebuilt.members {
            let name = key.string ?? ""
            let before = values[name]
            if before?.bytes == value.bytes { continue }
            // Facts are whole histories. They are in the log.
            let isShown = name != "facts"
            fields.append(difference(name, isShown ? before?.shown : nil, isShown ? value.shown : nil))
        }
        return fields.isEmpty ? [difference(nil, nil, nil)] : fields
    }

    /// The rules that were applied to the purchase of the row, or that make the customer of the row the owner.
    private func reasons(_ row: Row, _ rules: [AppliedRule]) -> [Explanation.Reason] {
        guard let rebuilt = row.rebuilt ?? row.live else { return [] }
        if row.relation == "ownership", row.rebuilt != nil,
            let reason = rebuilt["reason"]?.string.flatMap(Ownership.Reason.init(rawValue:))
        {
            return [
                Explanation.Reason(
                    AppliedRule(
                        reason.rule, of: row.subscription,
                        positions: rebuilt["position"]?.int64.map { [$0] } ?? []))
            ]
        }
        guard let transaction = rebuilt["transaction_id"]?.string ?? rebuilt["last_transaction_id"]?.string else {
            return []
        }
        return rules.filter { $0.transactionId == transaction }.map { Explanation.Reason($0) }
    }
}

extension JSONValue {
    /// A text as it is, any other value as JSON.
    fileprivate var shown: String { string ?? String(decoding: bytes, as: UTF8.self) }
}
