import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Subscriptions

/// Compares the notifications that Apple made on a day with the log, and takes in what is missing.
package struct DeliveryAuditor: Sendable {
    private let walk: NotificationWalk
    private let verifier: NotificationVerifier
    private let deliveries: DeliveryLog
    private let appender: Appender
    private let clock: StoreClock
    private let windows: Int
    private let metrics: DeliveryMetrics
    private let logger: Logger

    /// - Parameters:
    ///   - deliveries: With the rights of `subledger_poller`.
    ///   - windows: The parts of a day that are read separately, a few at a time. Pages follow each other.
    package init(
        client: ServerAPIClient, verifier: NotificationVerifier, apps: [App], deliveries: DeliveryLog,
        appender: Appender, clock: StoreClock, windows: Int = 24,
        metrics factory: any MetricsFactory = MetricsSystem.factory,
        logger: Logger
    ) {
        walk = NotificationWalk(client: client)
        self.verifier = verifier
        self.deliveries = deliveries
        self.appender = appender
        self.clock = clock
        self.windows = windows
        metrics = DeliveryMetrics(apps: apps.map(\.bundleId), factory: factory)
        self.logger = logger
    }

    package enum Outcome: Sendable, Hashable {
        /// All that could be verified is in the log, and the comparison is recorded.
        case audited(DeliveryAudit)
        /// Apple refuses a question or its answer is not understood.
        case refused
        case keyRejected
        /// No answer; how long to wait before asking again.
        case unavailable(Duration)
    }

    /// Audits a day of a stream. Safe to repeat: what was taken in remains counted as fetched.
    ///
    /// Notifications whose date of signing cannot be read are left out.
    ///
    /// - Parameters:
    ///   - day: It has ended, and Apple still has its notifications.
    ///   - app: Must have a key.
    ///   - host: That of the stream.
    /// - Throws: ``ReadError``, ``AppendError``. A part may have been taken in.
    package func audit(_ day: AuditDay, of app: App, on host: ReceiptHost) async throws -> Outcome {
        let stream = StreamKey(app: app.bundleId, environment: host.environment)
        var since = app.listeningSince
        if since == nil { since = try await deliveries.firstArrival(in: stream) }
        let listeningSince = since
        let lasts = day.end.milliseconds - day.start.milliseconds
        let bounds = (0...windows).map { day.start.advanced(byMilliseconds: lasts * Int64($0) / Int64(windows)) }
        let result = try await withThrowingTaskGroup(
            of: Result<DeliveryCount, AccountReader.Failure>.self
        ) { group -> Result<DeliveryCount, AccountReader.Failure> in
            var total = DeliveryCount()
            var next = 0
            func addTask() {
                guard next < windows else { return }
                let window = bounds[next]..<bounds[next + 1]
                group.addTask { try await read(window, of: app, on: host, in: stream, listeningSince) }
                next += 1
            }
            for _ in 0..<Limits.auditWindowsMax { addTask() }
            while let part = try await group.next() {
                switch part {
                case .success(let count): total.add(count)
                case .failure:
                    group.cancelAll()
                    return part
                }
                addTask()
            }
            return .success(total)
        }
        let count: DeliveryCount
        switch result {
        case .success(let total): count = total
        case .failure(.keyRejected): return .keyRejected
        case .failure(.unavailable(_, let retryAfter)): return .unavailable(retryAfter)
        case .failure(.notFound), .failure(.refused), .failure(.unreadable): return .refused
        }
        let inLog = try await deliveries.arrived(on: day, in: stream)
        let audit = DeliveryAudit(
            stream: stream, day: day, auditedAt: clock.date(), count: count, onlyInLog: max(0, inLog - count.arrived))
        try await deliveries.record(audit)
        tell(audit)
        return .audited(audit)
    }

    /// Takes in what is missing of the notifications that Apple signed in a window.
    private func read(
        _ window: Range<Instant>, of app: App, on host: ReceiptHost, in stream: StreamKey, _ listeningSince: Instant?
    ) async throws -> Result<DeliveryCount, AccountReader.Failure> {
        let start = window.lowerBound.advanced(by: .zero - Limits.auditOverlap)
        let end = window.upperBound.advanced(by: Limits.auditOverlap)
        var count = DeliveryCount()
        var seen: Set<DedupeKey> = []
        let failure = try await walk.read(start..<end, of: app, on: host) { notifications in
            var open: [(key: DedupeKey, signedAt: Instant, sent: SentNotification)] = []
            for sent in notifications {
                guard let (key, signedAt) = sent.identity, window.contains(signedAt), seen.insert(key).inserted
                else { continue }
                open.append((key, signedAt, sent))
            }
            let places = try await deliveries.places(of: open.map(\.key), in: stream)
            for (key, signedAt, sent) in open {
                let succeededAt = sent.attempts.filter(\.isSuccess).map(\.at).min()
                var place = places[key]
                if place == nil {
                    // What was delivered to another URL before was not lost here.
                    let wasDelivered = succeededAt.map { $0 >= listeningSince ?? .latest } ?? false
                    switch try await fetch(sent, in: stream, wasDelivered: wasDelivered) {
                    case .success(let new): place = new
                    case .failure(let failure): return failure
                    }
                }
                count.add(
                    place ?? .refused, signedAt: signedAt, attempts: sent.attempts.map { ($0.at, $0.result) },
                    succeededAt: succeededAt, listeningSince: listeningSince)
            }
            return nil
        }
        if let failure { return .failure(failure) }
        return .success(count)
    }

    /// Appends a notification that is not in the log.
    private func fetch(
        _ sent: SentNotification, in stream: StreamKey, wasDelivered: Bool
    ) async throws -> Result<DeliveryCount.Place, AccountReader.Failure> {
        let receivedAt = clock.date()
        let verified: VerifiedNotification
        do throws(Refusal) {
            verified = try await verifier.verify(fetched: sent.body, receivedAt: receivedAt)
        } catch {
            if case .unverified(.revocationUnknown, _) = error {
                return .failure(.unavailable(.temporaryStatus, retryAfter: Limits.unavailablePause))
            }
            logger.warning(
                "notification of Apple's history refused",
                metadata: ["stream.app": "\(stream.app)", "error": "\(error)"])
            return .success(.refused)
        }
        guard verified.stream == stream else { return .success(.refused) }
        let appended = try await appender.append(PreparedEvent(verified, receivedAt: receivedAt))
        // It may have arrived in the meantime.
        guard appended.isNew else { return .success(.arrived(receivedAt)) }
        metrics.noteFetched(of: stream.app, wasDelivered: wasDelivered)
        if wasDelivered {
            logger.error(
                "notification lost: Apple delivered it, and it was not in the log",
                metadata: stream.metadata(["event.position": "\(appended.position)"]))
        }
        return .success(.fetched(receivedAt))
    }

    private func tell(_ audit: DeliveryAudit) {
        let count = audit.count
        logger.log(
            level: count.lost > 0 ? .error : .info, "deliveries audited",
            metadata: audit.stream.metadata([
                "day": "\(audit.day.text)", "made": "\(count.made)", "arrived": "\(count.arrived)",
                "fetched": "\(count.fetched)", "refused": "\(count.refused)", "lost": "\(count.lost)",
                "before": "\(count.before)", "only_in_log": "\(audit.onlyInLog)",
            ]))
    }
}
