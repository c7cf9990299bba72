import Dispatch
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Sends requests with `URLSession`.
public struct URLSessionTransport: Transport {
    private let base: URL
    private let token: String?
    private let session: URLSession

    /// - Parameters:
    ///   - base: The address of the server or of the app's backend, such as `https://purchases.example.com`.
    ///   - publishableToken: From `subledger token create --scope publishable`; nil if the app's backend passes requests
    ///     on with a token of its own.
    public init(base: URL, publishableToken: String? = nil, session: URLSession = .shared) {
        self.base = base
        token = publishableToken
        self.session = session
    }

    public func send(_ request: ClientRequest) async throws -> ClientResponse {
        var address = base.absoluteString
        while address.hasSuffix("/") { address.removeLast() }
        guard let url = URL(string: address + request.path) else { throw URLError(.badURL) }
        var message = URLRequest(url: url, timeoutInterval: Limits.requestSeconds)
        message.httpMethod = request.method
        message.httpBody = request.body
        // Tags are compared by this library, and a cached answer would hide that the server is away.
        message.cachePolicy = .reloadIgnoringLocalCacheData
        for (name, value) in request.headers { message.setValue(value, forHTTPHeaderField: name) }
        if let token { message.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization") }
        return try await answer(to: message)
    }

    /// Sends a message. If the task is cancelled, so is the request, but on a queue: on Linux, `cancel()` waits for an answer
    /// that is being delivered, and delivering it to the task waits until the task is cancelled.
    private func answer(to message: URLRequest) async throws -> ClientResponse {
        let sent = SentRequest()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                sent.begin(
                    session.dataTask(with: message) { data, response, error in
                        if let response = response as? HTTPURLResponse, error == nil {
                            var headers: [String: String] = [:]
                            for (name, value) in response.allHeaderFields { headers["\(name)"] = "\(value)" }
                            continuation.resume(
                                returning: ClientResponse(
                                    status: response.statusCode, headers: headers, body: data ?? Data()))
                        } else {
                            continuation.resume(throwing: error ?? URLError(.badServerResponse))
                        }
                    })
            }
        } onCancel: {
            sent.cancel()
        }
    }
}

/// A request that may be cancelled at any time, before it begins too.
///
/// Unchecked because of its variables, which are used with the lock only.
private final class SentRequest: @unchecked Sendable {
    private let lock = NSLock()
    private var task: URLSessionDataTask?
    private var isCancelled = false

    func begin(_ task: URLSessionDataTask) {
        lock.lock()
        self.task = task
        let isCancelled = isCancelled
        lock.unlock()
        task.resume()
        if isCancelled { cancel() }
    }

    func cancel() {
        lock.lock()
        isCancelled = true
        lock.unlock()
        DispatchQueue.global().async {
            self.lock.lock()
            let task = self.task
            self.lock.unlock()
            task?.cancel()
        }
    }
}
