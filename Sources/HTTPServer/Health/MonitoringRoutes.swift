import Hummingbird

/// Routes for monitoring systems, without a token: health, and `GET /metrics` in Prometheus' text format.
struct MonitoringRoutes: Sendable {
    let health: [HealthCheck]
    let metrics: MetricsRegistry

    func add(to routes: PrivateRoutes) {
        HealthRoutes(checks: health, showsConditions: true).add(to: routes.open)
        routes.open.get("/metrics") { _, _ in
            Response(
                status: .ok, headers: [.contentType: "text/plain; version=0.0.4"],
                body: .init(byteBuffer: ByteBuffer(string: await metrics.scrape())))
        }
    }
}
