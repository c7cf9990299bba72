import Encoding
import Metrics
import Subscriptions
import Synchronization

/// Counts the values that this version does not know, by field and value, of which a server shows a limited number.
final class UnknownValueMetrics: Sendable {
    /// Most values with a counter of their own. Each is a time series, and anyone may hand in signed data with any value.
    private static let valuesMax = 50
    private static let label = "subledger_unknown_values_total"

    private struct Value: Sendable, Hashable {
        let field: UnknownValue.Field
        let value: String
    }

    private let shown = Mutex<Set<Value>>([])

    func note(_ defects: [Defect]) {
        for defect in defects {
            guard let (field, value) = UnknownValue.named(by: defect) else { continue }
            let counted = Value(field: field, value: value)
            let isShown = shown.withLock { shown in
                guard shown.count < Self.valuesMax || shown.contains(counted) else { return false }
                shown.insert(counted)
                return true
            }
            Counter(
                label: Self.label,
                dimensions: [("field", field.name.description), ("value", isShown ? value : "other")]
            ).increment()
        }
    }
}
