import Dispatch
import Foundation
import Synchronization

/// A thread that runs the jobs of one connection, and of the task that borrowed it, one after the other.
///
/// Waiting for libpq means `poll(2)`, which blocks. A dedicated thread may block; on one of Swift's few cooperative
/// threads, a handful of slow statements would stall the whole process.
final class ConnectionThread: SerialExecutor, TaskExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        var stopped = false
    }

    private let state = Mutex(State())
    private let work = DispatchSemaphore(value: 0)

    /// Starts the thread, which keeps the executor alive until ``stop()``.
    init() {
        let thread = Thread { [self] in run() }
        thread.name = "postgres"
        thread.stackSize = 1 << 20
        thread.start()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
        work.signal()
    }

    /// Ends the thread once it has run all queued jobs. Called from the actor's `deinit`, after which no job can
    /// arrive.
    func stop() {
        state.withLock { $0.stopped = true }
        work.signal()
    }

    private func run() {
        while true {
            work.wait()
            let (jobs, stopped) = state.withLock { state in
                defer { state.jobs.removeAll(keepingCapacity: true) }
                return (state.jobs, state.stopped)
            }
            for job in jobs {
                job.runSynchronously(
                    isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
            }
            if stopped { return }
        }
    }
}
