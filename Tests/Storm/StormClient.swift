import AsyncHTTPClient
import Foundation
import NIOCore

/// An HTTP client for the servers, with many connections.
struct StormClient: Sendable {
    struct Answer: Sendable {
        let status: Int
        let text: String

        private var json: [String: Any] {
            (try? JSONSerialization.jsonObject(with: Data(text.utf8))) as? [String: Any] ?? [:]
        }
        var position: Int64? { (json["position"] as? Int).map { Int64($0) } }
        var id: String? { json["id"] as? String }
        /// The id of the `endpoint` member.
        var endpoint: String? { (json["endpoint"] as? [String: Any])?["id"] as? String }
        var state: String? { json["state"] as? String }
        var isConflict: Bool { json["conflict"] as? Bool ?? false }
        var isActive: Bool? { json["active"] as? Bool }
        /// The `error` member.
        var reason: String? { json["error"] as? String }
    }

    /// Longer than the server's own timeouts and than any fault.
    static let answerWaitMax = TimeAmount.seconds(25)
    private static let answerBytesMax = 1 << 24

    /// The bearer token for private listeners.
    let token: String
    private let http: AsyncHTTPClient.HTTPClient

    init(connections: Int, token: String) {
        self.token = token
        var configuration = AsyncHTTPClient.HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        http = AsyncHTTPClient.HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// - Returns: Nil if there was no answer.
    func post(
        _ body: [UInt8], to port: Int, path: String = "/apple/notifications", token: String? = nil
    ) async -> Answer? {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = .POST
        if !path.hasPrefix("/apple/") {
            request.headers.add(name: "authorization", value: "Bearer \(token ?? self.token)")
        }
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: body))
        return await send(request)
    }

    func get(_ path: String, from port: Int) async -> Answer? {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.headers.add(name: "authorization", value: "Bearer \(token)")
        return await send(request)
    }

    private func send(_ request: HTTPClientRequest) async -> Answer? {
        do {
            let response = try await http.execute(request, timeout: Self.answerWaitMax)
            let body = try await response.body.collect(upTo: Self.answerBytesMax)
            return Answer(status: Int(response.status.code), text: String(buffer: body))
        } catch {
            return nil
        }
    }

    func close() async {
        try? await http.shutdown()
    }
}
