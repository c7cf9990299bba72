import Hummingbird

/// `GET /health/live`: the process runs. `GET /health/ready` and `GET /health`: the server can serve requests; 503
/// while a condition is failing.
struct HealthRoutes: Sendable {
    private let reports: HealthReports
    private let showsConditions: Bool

    /// - Parameter showsConditions: False on the public listener, where the response only says whether it is ready.
    init(checks: [HealthCheck], showsConditions: Bool) {
        reports = HealthReports(checks: checks)
        self.showsConditions = showsConditions
    }

    func add(to routes: some RouterMethods<BasicRequestContext>) {
        routes.get("/health/live") { _, _ in JSONResponse.json(.ok) { $0.member("status", "ok") } }
        for path in ["/health", "/health/ready"] {
            routes.get(RouterPath(path)) { _, _ in answer(await reports.report()) }
        }
    }

    private func answer(_ report: HealthReport) -> Response {
        var response = JSONResponse.json(report.isReady ? .ok : .serviceUnavailable) { writer in
            guard showsConditions else {
                return writer.member("status", report.isReady ? "ok" : "unavailable")
            }
            writer.member("status", report.status)
            writer.key("conditions")
            writer.array(report.conditions) { writer, condition in
                writer.object { writer in
                    writer.member("name", condition.name)
                    writer.member("state", condition.state.name)
                    writer.member("detail", condition.detail)
                }
            }
        }
        if !report.isReady { response.headers[.retryAfter] = String(Limits.retryAfterSeconds) }
        return response
    }
}
