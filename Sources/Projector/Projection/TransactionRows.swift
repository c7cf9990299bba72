import Encoding
import Postgres
import Subscriptions

/// Rows of `transaction`: the columns that are not fields, then one for each field, in the order of the fields.
struct TransactionRows: FieldVisitor {
    /// The columns in the order in which a row has them. That of a field has its name, in snake case.
    static let columns: [SQL] = {
        var fields = FieldNames()
        Transaction(transactionId: "", originalTransactionId: "").visitFields(with: &fields)
        let own: [SQL] = [
            "stream_id", "original_transaction_id", "transaction_id", "positions", "additional", "gap", "refunds",
        ]
        return own + fields.names.map { SQL(snakeCase: $0) }
    }()

    private(set) var rows: CopyRows

    init(count: Int) {
        rows = CopyRows(columns: Self.columns.count, rows: count, rowBytes: 500)
    }

    mutating func append(_ resolved: Subscription.ResolvedTransaction, streamId: Int32) {
        rows.beginRow()
        rows.append(streamId)
        rows.append(resolved.transaction.originalTransactionId)
        rows.append(resolved.transaction.transactionId)
        rows.append(resolved.positions)
        rows.append(json: resolved.transaction.additional?.utf8)
        rows.append(resolved.gap?.rawValue)
        rows.append(json: Self.refunds(of: resolved))
        resolved.transaction.visitFields(with: &self)
    }

    /// What was paid back, oldest first; nil if that is not known, or nothing.
    private static func refunds(of resolved: Subscription.ResolvedTransaction) -> [UInt8]? {
        let refunds = resolved.paidBack
        guard !refunds.isEmpty else { return nil }
        var writer = JSONWriter()
        writer.array(refunds) { writer, refund in
            writer.object { writer in
                writer.member("at", refund.at)
                writer.member("amount", refund.amount)
            }
        }
        return writer.bytes
    }

    mutating func visit(_ field: Field, _ source: String?, _ target: inout String?) {
        rows.append(source)
    }

    mutating func visit(_ field: Field, _ source: Int?, _ target: inout Int?) {
        rows.append(narrow: source)
    }

    mutating func visit(_ field: Field, _ source: Int64?, _ target: inout Int64?) {
        rows.append(source)
    }

    mutating func visit(_ field: Field, _ source: Bool?, _ target: inout Bool?) {
        rows.append(source)
    }

    mutating func visit(_ field: Field, _ source: Instant?, _ target: inout Instant?) {
        rows.append(source)
    }

    mutating func visit(_ field: Field, _ source: [String], _ target: inout [String]) {
        preconditionFailure("no column of a transaction is an array of texts")
    }

    mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool) {
        if field.isProjected { rows.append(source) }
    }
}

private struct FieldNames: FieldVisitor {
    private(set) var names: [StaticString] = []

    mutating func visit<Value>(_ field: Field, _ source: Value, _ target: inout Value) {
        names.append(field.name)
    }

    mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool) {
        if field.isProjected { names.append(field.name) }
    }
}
