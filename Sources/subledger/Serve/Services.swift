import EventLog
import Postgres
import Projector
import Readers
import ServiceLifecycle

/// Keeps the private server running; ends connections and server when nothing needs them any more.
struct DatabaseService: Service {
    /// Nil when the database is somebody else's.
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
        // Not cut short by the cancellation that may have led here.
        await Task { [pools, embedded] in
            for pool in pools { await pool.close() }
            await embedded?.stop()
        }.value
    }
}

/// Commits what the listeners take; ends after them, when the queue is empty.
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

/// Looks whether the database is still safe to append to.
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
