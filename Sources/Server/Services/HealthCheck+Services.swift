import EventLog
import HTTPServer
import Projector
import StoreClient

extension HealthCheck {
    /// Checks whether the latest batches of events could be stored.
    static func appending(_ appender: Appender) -> HealthCheck {
        HealthCheck(name: "appending") {
            switch await appender.condition {
            case .ok: .ok
            case .failing(let since, let label):
                .failing("events have not been stored for \((.now - since).components.seconds) s: \(label)")
            }
        }
    }

    /// Checks whether the database's settings protect acknowledged events against a crash, as far as no provider does.
    static func durability(_ watch: DurabilityWatch) -> HealthCheck {
        let note = watch.basis == .provider ? "the provider keeps commits; only synchronous_commit is checked" : nil
        return HealthCheck(name: "durability", note: note) {
            switch watch.condition {
            case .safe: .ok
            case .unsafe(let setting): .failing("the database setting \(setting) is off")
            }
        }
    }

    /// Checks whether every session reads the database's notifications. Once the queue is full, events are looked for.
    static func notificationQueue(_ watch: DurabilityWatch) -> HealthCheck {
        HealthCheck(name: "notification_queue") {
            guard let usage = watch.queueUsageTooHigh else { return .ok }
            return .degraded(
                "a session keeps notifications of the database unread: \(Int(usage * 100)) percent of the queue is in use"
            )
        }
    }

    /// Checks whether the bodies of next month have a place. An append makes a missing one itself.
    static func bodies(_ partitions: BodyPartitions) -> HealthCheck {
        HealthCheck(name: "bodies") {
            guard partitions.monthsAhead ?? 1 < 1 else { return .ok }
            return .degraded("no partition for the bodies of next month")
        }
    }

    /// Checks whether each archive file is where it should be. Nobody notices a lost one for years.
    static func archive(_ watch: ArchiveWatch) -> HealthCheck {
        HealthCheck(name: "archive") {
            guard let problem = watch.figures?.problem else { return .ok }
            return .degraded(problem)
        }
    }

    /// Checks whether a stream is stalled. A stalled stream does not stop the receiver, so the process stays ready.
    static func projection(_ projector: Projector) -> HealthCheck {
        HealthCheck(name: "projection") {
            let stalled = await projector.stalledStreams
            guard let first = stalled.first else { return .ok }
            return .degraded(
                "stalled streams: \(stalled.count), first cause \(first.cause.rawValue), since \(first.since)")
        }
    }

    /// Checks whether the log extends what was signed of it. Nothing else waits for that.
    static func checkpoints(_ trees: TreeKeeper) -> HealthCheck {
        HealthCheck(name: "checkpoints") {
            let problems = await trees.problems
            guard let first = problems.first else { return .ok }
            return .degraded(
                "streams without new checkpoints: \(problems.count), first \(first.stream.app) in "
                    + "\(first.stream.environment.rawValue): \(first.problem)")
        }
    }

    /// Checks whether the configuration of each product says what its purchases need. Purchases that give no access are not
    /// lost: they count as soon as the product is configured.
    static func products(_ projector: Projector) -> HealthCheck {
        HealthCheck(name: "products") {
            let products = await projector.unconfiguredProducts
            guard let first = products.first else { return .ok }
            return .degraded(
                "products to configure: \(products.count), first \(first.productId) of \(first.app) in "
                    + "\(first.environment), \(first.gap.problem): purchases \(first.purchases)")
        }
    }

    /// Checks whether a store is asked when questions are due. Late questions end no access.
    static func polling(_ name: String, _ questions: String, _ polling: Polling) -> HealthCheck {
        HealthCheck(name: name) {
            guard let overdue = polling.overdue else { return .ok }
            return .degraded(
                "\(questions) due: \(overdue.due), the oldest for \(overdue.oldest.components.seconds / 60) min")
        }
    }

    /// Checks whether this process can lead, or knows who leads, the work that the servers divide among themselves. If none
    /// can, nobody asks the stores.
    static func leaders(_ elector: Elector) -> HealthCheck {
        HealthCheck(name: "leaders") {
            let unled = await elector.unled()
            guard let longest = unled.map(\.time).max() else { return .ok }
            return .degraded(
                "no leader can be chosen for \(unled.map(\.work.rawValue).joined(separator: ", ")), "
                    + "for \(longest.components.seconds) s")
        }
    }

    /// Checks whether each part of the work with the stores succeeds in which this process leads. A part that fails holds up
    /// no other.
    ///
    /// - Returns: Nil if the process does no such work.
    static func rounds(_ apple: PollerServices?, _ google: GoogleServices?) -> HealthCheck? {
        guard apple != nil || google != nil else { return nil }
        return HealthCheck(name: "rounds") {
            let failing = (apple?.failing ?? []) + (google?.failing ?? [])
            guard let first = failing.max(by: { $0.time < $1.time }) else { return .ok }
            let place = first.environment.map { "\(first.app) in \($0.rawValue)" } ?? first.app
            return .degraded(
                "parts of rounds that fail: \(failing.count), first \(first.work) of \(place), "
                    + "for \(first.time.components.seconds) s")
        }
    }
}
