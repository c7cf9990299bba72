import EventLog

/// The state of one thing that the server's work depends on.
package enum HealthState: Sendable, Hashable {
    case ok
    /// Something needs attention, and requests are still answered. The detail is for the operator.
    case degraded(String)
    /// Requests should go to another server. The detail is for the operator.
    case failing(String)

    /// The word in answers.
    var name: String {
        switch self {
        case .ok: "ok"
        case .degraded: "degraded"
        case .failing: "failing"
        }
    }

    var detail: String? {
        switch self {
        case .ok: nil
        case .degraded(let detail), .failing(let detail): detail
        }
    }
}

/// A named condition of the server's health.
package struct HealthCheck: Sendable {
    package let name: String
    /// Returns within ``Limits/healthWaitMax`` or so, and may be called several times a second.
    package let check: @Sendable () async -> HealthState

    package init(name: String, check: @escaping @Sendable () async -> HealthState) {
        self.name = name
        self.check = check
    }

    /// Whether the database answers now.
    ///
    /// - Parameter log: Reads by a pool that requests do not wait for.
    package static func database(_ log: LogReader) -> HealthCheck {
        HealthCheck(name: "database") {
            do throws(ReadError) {
                try await log.ping(within: Limits.healthWaitMax)
                return .ok
            } catch {
                return .failing(error.description)
            }
        }
    }
}

/// What all checks returned.
struct HealthReport: Sendable {
    struct Condition: Sendable {
        let name: String
        let state: HealthState
    }

    /// In the order of the checks.
    let conditions: [Condition]

    /// All checks at the same time.
    init(of checks: [HealthCheck]) async {
        var states: [Int: HealthState] = [:]
        await withTaskGroup(of: (Int, HealthState).self) { group in
            for (index, check) in checks.enumerated() { group.addTask { (index, await check.check()) } }
            for await (index, state) in group { states[index] = state }
        }
        conditions = checks.enumerated().map { Condition(name: $1.name, state: states[$0] ?? .ok) }
    }

    /// Whether requests should be sent here.
    var isReady: Bool {
        !conditions.contains { condition in
            if case .failing = condition.state { true } else { false }
        }
    }

    /// The worst state of all.
    var status: String {
        if !isReady { return "failing" }
        return conditions.allSatisfy { $0.state == .ok } ? "ok" : "degraded"
    }
}

/// Gives every health check an answer that is half a second old at most, for one look at the database: anybody may ask,
/// and a request that waits for its answer holds a connection.
actor HealthReports {
    private let checks: [HealthCheck]
    private var latest: (report: HealthReport, at: ContinuousClock.Instant)?
    private var running: Task<HealthReport, Never>?

    init(checks: [HealthCheck]) {
        self.checks = checks
    }

    func report() async -> HealthReport {
        if let latest, latest.at + Limits.healthAgeMax > .now { return latest.report }
        if let running { return await running.value }
        let task = Task { [checks] in await HealthReport(of: checks) }
        running = task
        let report = await task.value
        latest = (report, .now)
        running = nil
        return report
    }
}
