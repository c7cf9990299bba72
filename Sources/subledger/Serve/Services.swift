import EventLog
import Postgres
import ServiceLifecycle

/// Keeps the private PostgreSQL running. Closes the connection pools and stops it after all other services.
struct DatabaseService: Service {
    /// The private PostgreSQL; nil with a database URL.
    let embedded: EmbeddedServer?
    let pools: [PostgresPool]

    func run() async throws {
        await cancelWhenGracefulShutdown {
            if let embedded {
                await embedded.supervise()
            } else {
                try? await gracefulShutdown()
            }
        }
        // A separate task, which a cancellation of this one does not interrupt.
        await Task { [pools, embedded] in
            for pool in pools { await pool.close() }
            await embedded?.stop()
        }.value
    }
}

/// Commits the events that the listeners accept. Stops after them, once the queue is empty.
struct AppenderService: Service {
    let appender: Appender

    func run() async throws {
        await withTaskCancellationOrGracefulShutdownHandler {
            await appender.run()
        } onCancelOrGracefulShutdown: {
            Task { await appender.stop() }
        }
    }
}

/// Runs work until the server stops. What is in flight then is abandoned, and is not lost: it is due again after the next
/// start.
struct RunService: Service {
    private let work: @Sendable () async -> Void

    /// - Parameter part: Nil in a process that does not do the work.
    init?<Part: Sendable>(_ part: Part?, _ run: @escaping @Sendable (Part) async -> Void) {
        guard let part else { return nil }
        work = { await run(part) }
    }

    func run() async throws {
        await cancelWhenGracefulShutdown(work)
    }
}
