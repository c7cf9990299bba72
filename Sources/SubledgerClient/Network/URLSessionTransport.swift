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
        let (data, response) = try await session.answer(to: message)
        var headers: [String: String] = [:]
        for (name, value) in response.allHeaderFields { headers["\(name)"] = "\(value)" }
        return ClientResponse(status: response.statusCode, headers: headers, body: data)
    }
}
