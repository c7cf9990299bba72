import EventLog

/// The state of one condition of the server's health.
package enum HealthState: Sendable, Hashable {
    case ok
    /// The condition needs attention, but requests can be served. The detail is for the operator.
    case degraded(String)
    /// Requests should go to another server. The detail is for the operator.
    case failing(String)

    /// The word in responses.
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
    /// What the operator should know while the condition is ok; nil for nothing.
    package let note: String?
    /// Returns within about ``Limits/healthWaitMax``; may be called several times per second.
    package let check: @Sendable () async -> HealthState

    package init(name: String, note: String? = nil, check: @escaping @Sendable () async -> HealthState) {
        self.name = name
        self.note = note
        self.check = check
    }

    /// Checks whether the database responds.
    ///
    /// - Parameter log: A reader whose pool no request waits for.
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

/// The results of all checks.
struct HealthReport: Sendable {
    struct Condition: Sendable {
        let name: String
        let state: HealthState
        /// See ``HealthCheck/note``.
        let note: String?

        var detail: String? { state.detail ?? note }
    }

    /// In the order of the checks.
    let conditions: [Condition]

    /// Runs all checks concurrently.
    init(of checks: [HealthCheck]) async {
        var states: [Int: HealthState] = [:]
        await withTaskGroup(of: (Int, HealthState).self) { group in
            for (index, check) in checks.enumerated() { group.addTask { (index, await check.check()) } }
            for await (index, state) in group { states[index] = state }
        }
        conditions = checks.enumerated().map {
            Condition(name: $1.name, state: states[$0] ?? .ok, note: $1.note)
        }
    }

    /// Whether requests should be sent here.
    var isReady: Bool {
        !conditions.contains { condition in
            if case .failing = condition.state { true } else { false }
        }
    }

    /// The worst state of all conditions.
    var status: String {
        if !isReady { return "failing" }
        return conditions.allSatisfy { $0.state == .ok } ? "ok" : "degraded"
    }
}

/// Caches the health report for ``Limits/healthAgeMax``, so that any number of requests causes one query of the
/// database. Health requests need no token, and each one that waits for its response holds a connection.
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
