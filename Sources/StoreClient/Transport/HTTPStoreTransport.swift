import AsyncHTTPClient
import NIOCore
import NIOSSL

/// Sends requests to a store over HTTP, with TLS 1.2 or newer for `https` URLs.
package struct HTTPStoreTransport: StoreTransport {
    private let http: HTTPClient

    package init() {
        // No redirects: they would send secrets elsewhere. No decompression: the size limit applies to the bytes
        // received.
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        configuration.tlsConfiguration = tls
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Limits.connectionsMax
        // Retried and counted by the caller.
        configuration.connectionPool.retryConnectionEstablishment = false
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Closes all connections. Call it once, when no request is in flight.
    package func shutDown() async {
        try? await http.shutdown()
    }

    package func send(
        _ request: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        do {
            // The client's own timeout ends with the head of the response.
            return try await withThrowingTaskGroup(of: StoreResponse.self) { group in
                defer { group.cancelAll() }
                group.addTask { try await exchange(request, bytesMax: bytesMax) }
                group.addTask {
                    try await Task.sleep(for: timeout)
                    throw TransportFailure.timeout
                }
                guard let response = try await group.next() else { throw TransportFailure.unreachable }
                return response
            }
        } catch {
            throw Self.failure(error)
        }
    }

    private func exchange(_ request: StoreRequest, bytesMax: Int) async throws -> StoreResponse {
        var sent = HTTPClientRequest(url: request.url)
        sent.method = .init(rawValue: request.method)
        sent.headers.add(name: "accept", value: "application/json")
        if let token = request.token { sent.headers.add(name: "authorization", value: "Bearer \(token)") }
        if let body = request.body {
            sent.headers.add(name: "content-type", value: request.contentType)
            sent.body = .bytes(ByteBuffer(bytes: body))
        }
        let response = try await http.execute(sent, timeout: Self.timeout)
        return StoreResponse(
            status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after"),
            cacheControl: response.headers.first(name: "cache-control"),
            body: Array(buffer: try await response.body.collect(upTo: bytesMax)))
    }

    /// Longer than any caller waits.
    private static let timeout = TimeAmount.seconds(300)

    private static func failure(_ error: any Error) -> TransportFailure {
        if Task.isCancelled { return .cancelled }
        switch error {
        case let failure as TransportFailure: return failure
        case is NIOTooManyBytesError: return .tooLong
        case let error as HTTPClientError where error == .connectTimeout || error == .tlsHandshakeTimeout:
            return .timeout
        default: return .unreachable
        }
    }
}
