import EventLog
import HTTPServer
import Postgres
import Projector
import Readers
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

/// Takes notifications in from the quarantine. Stops before the appender; the rest is taken in after the next start.
struct QuarantineService: Service {
    let intake: QuarantineIntake

    func run() async throws {
        await cancelWhenGracefulShutdown { await intake.run() }
    }
}

/// Watches the database's durability settings.
struct DurabilityService: Service {
    let watch: DurabilityWatch

    func run() async throws {
        await cancelWhenGracefulShutdown { await watch.run() }
    }
}

struct ProjectorService: Service {
    let projector: Projector

    func run() async throws {
        await cancelWhenGracefulShutdown { await projector.run() }
    }
}

struct ChangeSignalService: Service {
    let signal: ChangeSignal

    func run() async throws {
        await cancelWhenGracefulShutdown { await signal.run() }
    }
}
