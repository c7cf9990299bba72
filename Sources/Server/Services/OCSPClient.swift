import AppStore
import AsyncHTTPClient
import NIOCore

/// Sends OCSP requests over HTTP.
struct OCSPClient: OCSPTransport {
    enum Failure: Error, Hashable {
        /// The responder's address in the certificate is not an HTTP or HTTPS URL.
        case notHTTP
        case status(UInt)
    }

    private let http: HTTPClient

    init() {
        // No redirects: the certificate names the responder. No decompression: the size limit applies to the bytes
        // received.
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        // The checker retries later; until then an unavailable responder must be reported as such.
        configuration.connectionPool.retryConnectionEstablishment = false
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Closes all connections. Call it once, when no request is in flight.
    func shutDown() async {
        try? await http.shutdown()
    }

    /// - Throws: ``Failure``, or the client's error if there was no response or a response of more than `bytesMax`
    ///   bytes.
    /// - Source: RFC 6960, appendix A.1.
    func answer(to request: [UInt8], at address: String, bytesMax: Int) async throws -> [UInt8] {
        // The client supports other schemes too, such as UNIX sockets.
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

    /// Longer than any caller waits. Callers cancel; this ends connections of callers that do not.
    private static let timeout = TimeAmount.seconds(30)
}
