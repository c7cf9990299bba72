import AppStore
import EventLog
import Metrics
import PlayStore
import Subscriptions

/// Metrics of received notifications.
///
/// Metrics that have alerts are created at start, so that the first occurrence is visible as an increase from zero.
struct NotificationMetrics: Sendable {
    private let shortChains = Counter(label: "subledger_short_chains_total")
    private let unknownTypes = Counter(label: "subledger_unknown_types_total")
    private let unknownFields = Counter(label: "subledger_unknown_fields_total")
    private let defects = Counter(label: "subledger_defects_total")
    private let cancellationsWithoutPurchase = Counter(label: "subledger_cancellations_without_purchase_total")
    private let nilAccountTokens = Counter(
        label: "subledger_account_tokens_ignored_total", dimensions: [("reason", "nil_uuid")])

    private enum Outcome: String, CaseIterable {
        case stored, duplicate, conflict
    }

    init() {
        for source in EventSource.allCases {
            for outcome in Outcome.allCases { Self.taken(outcome, source).increment(by: 0) }
        }
        let ours: [AppendError] = [.queueFull, .unavailable, .outcomeUnknown, .refused(sqlstate: "")]
        let theirs: [Refusal] = [.secretMissing, .secretWrong(app: nil), .appUnknown, .appAmbiguous]
        let reasons =
            ours.map(\.label) + theirs.map(\.label) + VerificationFailure.allCases.map(\.rawValue)
            + LocalStreams.Excess.allCases.map(\.rawValue) + OpenPushes.Excess.allCases.map(\.rawValue)
            + PushRefusal.alarming.map(\.label)
            + [KeysUnavailable.label, BodyReader.Failure.noRoomLabel]
        for reason in reasons { Self.refused(reason).increment(by: 0) }
    }

    /// - Parameter reason: A word from a closed list.
    func noteRefusal(_ reason: String) {
        Self.refused(reason).increment()
    }

    func note(_ prepared: PreparedEvent, _ appended: Appended) {
        let event = prepared.event
        let outcome: Outcome = appended.isNew ? .stored : appended.isConflict ? .conflict : .duplicate
        Self.taken(outcome, event.source).increment()
        guard appended.isNew else { return }
        if let occurredAt = event.occurredAt {
            // From the event to its receipt, including Apple's retries. Negative if clocks differ, and then recorded as
            // 0.
            Timer(label: "subledger_delivery_lag_seconds", dimensions: [("kind", event.kind.rawValue)])
                .recordMilliseconds(max(0, prepared.receivedAt.milliseconds - occurredAt.milliseconds))
        }
        if prepared.hasShortChain { shortChains.increment() }
        if event.kind == .other { unknownTypes.increment() }
        unknownFields.increment(by: event.unknownFields.count)
        let ignoredTokens = event.defects.count(where: \.isIgnoredAccountToken)
        nilAccountTokens.increment(by: ignoredTokens)
        defects.increment(by: event.defects.count - ignoredTokens)
        if event.defects.contains(.cancellationWithoutPurchase) { cancellationsWithoutPurchase.increment() }
    }

    private static func taken(_ outcome: Outcome, _ source: EventSource) -> Counter {
        Counter(
            label: "subledger_notifications_total",
            dimensions: [("outcome", outcome.rawValue), ("source", source.rawValue)])
    }

    private static func refused(_ reason: String) -> Counter {
        Counter(label: "subledger_notifications_refused_total", dimensions: [("reason", reason)])
    }
}
