import Dispatch
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension URLSession {
    /// Sends a request. If the task is cancelled, it fails at once with `URLError.cancelled`.
    ///
    /// On Linux, the request itself goes on to its end, and its answer is dropped. There, `data(for:)` can hang for ever if its
    /// task is cancelled while the answer is delivered: `cancel()` of the request waits for the delivery, which waits until
    /// the task is cancelled. And `cancel()` of a request that ends at that moment can end the process.
    ///
    /// - Source: swift-corelibs-foundation, issue 5412.
    package func answer(to request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        let sent = SentRequest()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard sent.begin(continuation) else { return }
                let task = dataTask(with: request) { data, response, error in
                    if let response = response as? HTTPURLResponse, error == nil {
                        sent.end(with: .success((data ?? Data(), response)))
                    } else {
                        sent.end(with: .failure(error ?? URLError(.badServerResponse)))
                    }
                }
                sent.task = task
                task.resume()
            }
        } onCancel: {
            sent.cancel()
        }
    }
}

/// A request that may be cancelled at any time, before it begins too.
///
/// Unchecked: the lock guards all variables.
private final class SentRequest: @unchecked Sendable {
    private let lock = NSLock()
    private var continuation: CheckedContinuation<(Data, HTTPURLResponse), any Error>?
    private var isCancelled = false
    private var sentTask: URLSessionDataTask?

    var task: URLSessionDataTask? {
        get { locked { sentTask } }
        set { locked { sentTask = newValue } }
    }

    /// Returns false, and fails, if it was cancelled before.
    func begin(_ continuation: CheckedContinuation<(Data, HTTPURLResponse), any Error>) -> Bool {
        let begins = locked {
            if !isCancelled { self.continuation = continuation }
            return !isCancelled
        }
        if !begins { continuation.resume(throwing: URLError(.cancelled)) }
        return begins
    }

    /// Ends it with the first result. Later ones are dropped.
    func end(with result: Result<(Data, HTTPURLResponse), any Error>) {
        let waiting = locked {
            defer { continuation = nil }
            return continuation
        }
        waiting?.resume(with: result)
    }

    func cancel() {
        locked { isCancelled = true }
        // Not in the handler of the cancellation, which keeps the task from being resumed.
        DispatchQueue.global().async {
            self.end(with: .failure(URLError(.cancelled)))
            #if !canImport(FoundationNetworking)
                self.task?.cancel()
            #endif
        }
    }

    private func locked<Value>(_ body: () -> Value) -> Value {
        lock.lock()
        defer { lock.unlock() }
        return body()
    }
}
