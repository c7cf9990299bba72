import EventLog
import Hummingbird
import Logging

extension Listener {
    /// The private listener of a process that answers no backends: health and metrics.
    ///
    /// - Parameters:
    ///   - log: Reads as a role that the process has anyway.
    ///   - onListening: Called with the port once connections are accepted.
    package static func operators(
        at address: ListenAddress, log: LogReader, metrics: MetricsRegistry, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) -> Listener {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: ErrorAnswers())
        HealthRoute(log: log).add(to: router)
        MetricsRoute(metrics: metrics).add(to: router)
        return Listener(router, address: address, logger: logger, onListening: onListening)
    }
}

/// `GET /metrics`, in Prometheus' text format.
struct MetricsRoute: Sendable {
    let metrics: MetricsRegistry

    func add(to router: Router<BasicRequestContext>) {
        router.get("/metrics") { _, _ in
            Response(
                status: .ok, headers: [.contentType: "text/plain; version=0.0.4"],
                body: .init(byteBuffer: ByteBuffer(string: metrics.prometheusText)))
        }
    }
}
