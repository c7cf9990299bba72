import EventLog
import Hummingbird
import Subscriptions

/// What watches the server asks, without a token: `GET /health`, whether the database answers just now, and
/// `GET /metrics`, in Prometheus' text format.
struct MonitoringRoutes: Sendable {
    let log: LogReader
    let metrics: MetricsRegistry

    func add(to routes: PrivateRoutes) {
        routes.open.get("/health") { _, _ in
            try await log.ping()
            return Answer.json(.ok) { $0.member("status", "ok") }
        }
        routes.open.get("/metrics") { _, _ in
            Response(
                status: .ok, headers: [.contentType: "text/plain; version=0.0.4"],
                body: .init(byteBuffer: ByteBuffer(string: metrics.prometheusText)))
        }
    }
}
