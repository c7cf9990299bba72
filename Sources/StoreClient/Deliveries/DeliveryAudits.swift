import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Subscriptions
import Synchronization

/// Audits the days of all apps with a key: each an hour after its end, and again when Apple has made its last attempt.
///
/// Any number of processes may run one: one of them audits.
package final class DeliveryAudits: Sendable {
    private let auditor: DeliveryAuditor
    private let deliveries: DeliveryLog
    private let leadership: StreamLeadership
    private let apps: [App]
    private let clock: StoreClock
    private let open: Gauge
    private let logger: Logger
    /// The last audit of each stream and day by this process. The log of a stream without events records none.
    private let done = Mutex<[StreamKey: [AuditDay: Instant]]>([:])
    /// When a day may be asked about again that Apple has refused.
    private let held = Mutex<[StreamKey: [AuditDay: Instant]]>([:])
    /// The days that could not be audited when they were last due. Each is logged once.
    private let failed = Mutex<[StreamKey: Set<AuditDay>]>([:])

    /// - Parameters:
    ///   - deliveries: With the rights of `subledger_poller`.
    ///   - leadership: Of its own.
    ///   - apps: Those without a key, or that are not polled, are left out.
    package init(
        auditor: DeliveryAuditor, deliveries: DeliveryLog, leadership: StreamLeadership, apps: [App],
        clock: StoreClock, metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        self.auditor = auditor
        self.deliveries = deliveries
        self.leadership = leadership
        self.apps = apps.filter { $0.polling && $0.serverAPIKey != nil }
        self.clock = clock
        self.logger = logger
        open = Gauge(label: "subledger_delivery_audit_days_open", factory: factory)
        open.record(0)
    }

    /// A day that is being audited is abandoned at the end, and audited again later.
    package var rounds: LedRounds.Round {
        LedRounds.Round("deliveries not audited", leadership, every: Limits.auditPause) {
            _ = try await self.round(at: self.clock.date())
        }
    }

    /// Makes the audits that are due at an instant, if no other process makes them. A day that cannot be audited keeps no other
    /// one from it.
    ///
    /// - Returns: Those that were made. Others are still due.
    /// - Throws: ``ReadError`` if the database is unavailable.
    package func round(at now: Instant) async throws -> [DeliveryAudit] {
        guard !apps.isEmpty, try await leadership.leads() else {
            // The leader reports them.
            open.record(0)
            return []
        }
        var audits: [DeliveryAudit] = []
        for app in apps {
            for host in ReceiptHost.allCases where app.environments.contains(host.environment) {
                let stream = StreamKey(app: app.bundleId, environment: host.environment)
                let first = AuditDay(containing: now.advanced(by: .zero - NotificationHistoryRequest.age(host))).next
                var audited: [AuditDay: Instant]
                do {
                    audited = try await deliveries.audits(of: stream, since: first)
                } catch {
                    guard !error.isOfDatabase else { throw error }
                    note(AuditDay(containing: now).previous, of: stream, "\(error)")
                    continue
                }
                audited.merge(done.withLock { $0[stream] ?? [:] }) { max($0, $1) }
                let held = held.withLock { $0[stream] ?? [:] }
                var failures = 0
                let due = AuditDay.due(at: now, audited: audited, since: first)
                _ = failed.withLock { $0[stream]?.formIntersection(due) }
                for day in due where held[day] ?? now <= now {
                    // So many in a row are not the fault of single days.
                    guard !Task.isCancelled, failures < Limits.auditFailuresMax else { break }
                    do {
                        if try await audit(day, of: app, on: host, at: now, &audits) {
                            failures = 0
                            _ = failed.withLock { $0[stream]?.remove(day) }
                            continue
                        }
                        note(day, of: stream, "the App Store cannot be asked, or does not answer")
                    } catch ReadError.unavailable {
                        throw ReadError.unavailable
                    } catch {
                        note(day, of: stream, "\(error)")
                    }
                    failures += 1
                }
            }
        }
        open.record(failed.withLock { $0.values.reduce(0) { $0 + $1.count } })
        return audits
    }

    private func note(_ day: AuditDay, of stream: StreamKey, _ problem: String) {
        guard !Task.isCancelled, failed.withLock({ $0[stream, default: []].insert(day).inserted }) else { return }
        logger.warning(
            "deliveries of a day not audited yet",
            metadata: stream.metadata(["day": "\(day.text)", "error": "\(problem)"]))
    }

    /// - Returns: False if the day is still due.
    private func audit(
        _ day: AuditDay, of app: App, on host: ReceiptHost, at now: Instant, _ audits: inout [DeliveryAudit]
    ) async throws -> Bool {
        switch try await auditor.audit(day, of: app, on: host) {
        case .audited(let audit):
            done.withLock { $0[audit.stream, default: [:]][day] = audit.auditedAt }
            audits.append(audit)
            return true
        case .refused:
            // One bad day must not keep all later ones from being audited.
            let stream = StreamKey(app: app.bundleId, environment: host.environment)
            held.withLock { $0[stream, default: [:]][day] = now.advanced(by: Limits.auditRefusedPause) }
            logger.warning(
                "deliveries not audited",
                metadata: stream.metadata(["day": "\(day.text)", "error": "the App Store refuses the question"]))
            return true
        case .keyRejected, .unavailable: return false
        }
    }
}

extension AuditDay {
    /// The days to audit, in their order.
    ///
    /// The first one is yesterday. From then on each day is audited, also those of an outage, as long as Apple has its
    /// notifications, and those of the last days that were left out; and once more ``Limits/lastAttemptMax`` after its
    /// end.
    ///
    /// - Parameters:
    ///   - audited: The audited days, each with when that was done last.
    ///   - first: The first day of which Apple has all notifications.
    static func due(at now: Instant, audited: [AuditDay: Instant], since first: AuditDay) -> [AuditDay] {
        let last = AuditDay(containing: now.advanced(by: .zero - Limits.auditDelay)).previous
        var days = audited.filter { day, auditedAt in
            let lastAttempt = day.end.advanced(by: Limits.lastAttemptMax)
            return day >= first && lastAttempt <= now && auditedAt < lastAttempt
        }.map(\.key)
        let recent = AuditDay(containing: last.start.advanced(by: .zero - Limits.lastAttemptMax))
        let began = audited.keys.min() ?? last
        var day = max(first, began, min(recent, audited.keys.max()?.next ?? last))
        while day <= last {
            if audited[day] == nil { days.append(day) }
            day = day.next
        }
        return days.sorted()
    }
}
