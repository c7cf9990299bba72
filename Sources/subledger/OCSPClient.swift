import AppStore
import AsyncHTTPClient
import NIOCore

/// Posts OCSP requests over HTTP.
struct OCSPClient: OCSPTransport {
    enum Failure: Error, Hashable {
        /// The certificate names something other than a web address.
        case notHTTP
        case status(UInt)
    }

    private let http: HTTPClient

    init() {
        // No redirects: a responder is where the certificate says it is. No decompression: the bound on the bytes is
        // one on what they take up.
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        // Whoever asks comes again later; until then a responder that is away should be seen to be.
        configuration.connectionPool.retryConnectionEstablishment = false
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Ends the connections. Call it once, when no answer is awaited any more.
    func shutDown() async {
        try? await http.shutdown()
    }

    /// - Throws: ``Failure``, or the client's own error if there was no answer or a longer one.
    /// - Source: RFC 6960, appendix A.1.
    func answer(to request: [UInt8], at address: String, bytesMax: Int) async throws -> [UInt8] {
        // The client knows other schemes as well, among them files that are sockets.
        let scheme = address.prefix { $0 != ":" }.lowercased()
        guard scheme == "http" || scheme == "https" else { throw Failure.notHTTP }
        var post = HTTPClientRequest(url: address)
        post.method = .POST
        post.headers.add(name: "content-type", value: "application/ocsp-request")
        post.headers.add(name: "accept", value: "application/ocsp-response")
        post.body = .bytes(request)
        let response = try await http.execute(post, timeout: Self.timeout)
        guard (200..<300).contains(response.status.code) else { throw Failure.status(response.status.code) }
        return Array(buffer: try await response.body.collect(upTo: bytesMax))
    }

    /// Longer than anybody waits. Whoever asks cancels, but a connection should not outlive a caller that forgot to.
    private static let timeout = TimeAmount.seconds(30)
}
