import Foundation

/// An HTTP response.
package struct HTTPAnswer: Sendable {
    package let status: Int
    package let headers: [String: String]
    package let body: String

    /// The body as a JSON object; empty if it is not one.
    package var json: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body.utf8))) as? [String: Any] ?? [:]
    }
}

/// An HTTP client of one listener on this machine.
package struct HTTPClient: Sendable {
    package let port: Int

    /// The bearer token of each request.
    package let token: String?

    /// For how long to repeat a request that is answered 503 because of the database, as senders and backends do.
    package let patience: Duration

    package init(port: Int, token: String? = nil, patience: Duration = .zero) {
        self.port = port
        self.token = token
        self.patience = patience
    }

    /// The same client, which repeats nothing: for a test of the 503 itself.
    package var withoutPatience: HTTPClient { HTTPClient(port: port, token: token) }

    /// - Throws: If there is no answer. The timeout is 30 s.
    package func get(_ path: String) async throws -> HTTPAnswer {
        try await send("GET", path, nil)
    }

    /// Sends a request with any method and additional headers.
    package func send(
        _ method: String, _ path: String, headers: [String: String] = [:], body: [UInt8]? = nil
    ) async throws -> HTTPAnswer {
        try await send(method, path, body, headers)
    }

    package func post(_ body: [UInt8], to path: String = "/apple/notifications") async throws -> HTTPAnswer {
        try await send("POST", path, body)
    }

    package func put(_ body: String, to path: String) async throws -> HTTPAnswer {
        try await send("PUT", path, Array(body.utf8))
    }

    private func send(
        _ method: String, _ path: String, _ body: [UInt8]?, _ headers: [String: String] = [:]
    ) async throws -> HTTPAnswer {
        var headers = headers
        if let token { headers["Authorization"] = headers["Authorization"] ?? "Bearer \(token)" }
        let request = try LocalRequest(port: port, method, path, headers: headers, body: body)
        let deadline = ContinuousClock.now + patience
        while true {
            let answer = try await request.send()
            guard answer.status == 503, answer.body.contains("the database"), ContinuousClock.now < deadline else {
                return answer
            }
            try await Task.sleep(for: .milliseconds(200))
        }
    }
}
