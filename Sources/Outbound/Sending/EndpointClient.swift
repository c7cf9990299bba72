import AsyncHTTPClient
import Encoding
import Foundation
import NIOCore
import NIOSSL

/// A request to an endpoint.
package struct OutboundRequest: Sendable {
    package var headers: [(name: String, value: String)]
    package var body: [UInt8]

    package init(headers: [(name: String, value: String)], body: [UInt8]) {
        self.headers = headers
        self.body = body
    }
}

/// Posts to one host of an endpoint. The host's name is looked up here, and the connection is made to the address that was
/// found to be public, so a name cannot lead elsewhere between the check and the connection.
package actor EndpointClient {
    private let url: Result<EndpointURL, EndpointURL.Malformed>
    private let settings: EndpointClientSettings
    private let now: @Sendable () -> Instant
    private var pinned: (address: NetworkAddress, until: ContinuousClock.Instant, http: HTTPClient)?
    /// Counts look-ups after failures, so that each address of a host has its turn.
    private var turn = 0
    /// The look-up in flight, which all attempts wait for.
    private var lookUp: Task<[NetworkAddress], any Error>?

    package init(url: String, _ settings: EndpointClientSettings, now: @escaping @Sendable () -> Instant) {
        self.settings = settings
        self.now = now
        do throws(EndpointURL.Malformed) {
            self.url = .success(try EndpointURL(url, allowsPrivate: settings.allowsPrivate))
        } catch {
            self.url = .failure(error)
        }
    }

    /// Closes all connections. Call it once, when no request is in flight.
    package func shutDown() async {
        let http = pinned?.http
        pinned = nil
        try? await http?.shutdown()
    }

    /// Makes one attempt.
    ///
    /// - Returns: Nil if the task was cancelled: what came of the attempt is unknown.
    package func post(_ request: OutboundRequest) async -> AttemptOutcome? {
        guard case .success(let url) = url else { return AttemptOutcome(.addressRefused) }
        do {
            return try await exchange(request, url)
        } catch {
            if Task.isCancelled { return nil }
            return AttemptOutcome(Self.class(of: error))
        }
    }

    private struct Refused: Error {}
    /// The host has no address.
    private struct Unknown: Error {}
    private struct TimedOut: Error {}

    private func exchange(_ request: OutboundRequest, _ url: EndpointURL) async throws -> AttemptOutcome {
        let deadline = ContinuousClock.now + settings.timeout
        let http =
            if let known = fresh { known } else { try await Self.by(deadline) { try await self.client(of: url) } }
        var sent = HTTPClientRequest(url: url.text)
        sent.method = .POST
        for (name, value) in request.headers { sent.headers.add(name: name, value: value) }
        sent.body = .bytes(ByteBuffer(bytes: request.body))
        let response: HTTPClientResponse
        do {
            response = try await http.execute(sent, deadline: .now() + .nanoseconds((deadline - .now).nanoseconds))
        } catch {
            // Another address of the host may answer.
            if !Task.isCancelled, pinned?.http === http { unpin() }
            throw error
        }
        // A body that is longer is left, and its connection closed. Without a body there is nothing to wait for.
        if response.status == .noContent || response.headers.first(name: "content-length") == "0" {
            _ = try? await response.body.collect(upTo: Limits.responseBytesMax)
        } else {
            // The client's own deadline ends with the head of the response.
            try await Self.by(deadline) { _ = try? await response.body.collect(upTo: Limits.responseBytesMax) }
        }
        return AttemptOutcome(
            status: Int(response.status.code),
            retryAfter: response.headers.first(name: "retry-after").flatMap { RetryAfter.pause($0, now: now()) })
    }

    /// Returns what the body returns, or throws at the deadline.
    private static func by<Value: Sendable>(
        _ deadline: ContinuousClock.Instant, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await body() }
            group.addTask {
                try await Task.sleep(until: deadline)
                throw TimedOut()
            }
            guard let value = try await group.next() else { throw TimedOut() }
            return value
        }
    }

    /// The client of an address that need not be looked up again yet.
    private var fresh: HTTPClient? { pinned.flatMap { $0.until > .now ? $0.http : nil } }

    /// The client whose connections go to the pinned address of the host.
    private func client(of url: EndpointURL) async throws -> HTTPClient {
        if let fresh { return fresh }
        let found = try await addresses(of: url.host)
        // Another request may have looked the name up meanwhile.
        if let fresh { return fresh }
        guard !found.isEmpty else { throw Unknown() }
        guard settings.allowsPrivate || found.allSatisfy(\.isPublic) else {
            unpin()
            throw Refused()
        }
        let until = ContinuousClock.now + Limits.addressAgeMax
        if let pinned, found.contains(pinned.address) {
            self.pinned?.until = until
            return pinned.http
        }
        let address = found[turn % found.count]
        let old = pinned?.http
        let http = HTTPClient(
            eventLoopGroupProvider: .singleton, configuration: settings.configuration(url.host, address))
        pinned = (address, until, http)
        retire(old)
        return http
    }

    private func addresses(of host: String) async throws -> [NetworkAddress] {
        if let lookUp { return try await lookUp.value }
        let lookUp = Task { [settings] in try await settings.resolver.addresses(host) }
        self.lookUp = lookUp
        defer { self.lookUp = nil }
        return try await lookUp.value
    }

    private func unpin() {
        let old = pinned?.http
        pinned = nil
        turn += 1
        retire(old)
    }

    /// Closes a client once no request can be in flight on it.
    private func retire(_ http: HTTPClient?) {
        guard let http else { return }
        Task { [timeout = settings.timeout] in
            try? await Task.sleep(for: timeout)
            try? await http.shutdown()
        }
    }

    private static func `class`(of error: any Error) -> AttemptOutcome.Class {
        switch error {
        case is Refused: .addressRefused
        case is TimedOut: .timeout
        case let error as HTTPClientError
        where [.connectTimeout, .tlsHandshakeTimeout, .deadlineExceeded, .readTimeout, .writeTimeout].contains(error):
            .timeout
        case let error as NIOSSLError where error.isAboutCertificate: .certificate
        case let error as NIOSSLExtraError
        where error == .failedToValidateHostname || error == .serverHostnameImpossibleToMatch: .certificate
        default: .unreachable
        }
    }
}

extension NIOSSLError {
    /// Whether the certificate of the other side is the reason.
    fileprivate var isAboutCertificate: Bool {
        switch self {
        case .unableToValidateCertificate, .noCertificateToValidate: true
        // The library has no other name for it than the text of the code.
        case .handshakeFailed(.sslError(let stack)):
            stack.contains { $0.description.contains("CERTIFICATE_VERIFY_FAILED") }
        default: false
        }
    }
}

extension Duration {
    fileprivate var nanoseconds: Int64 { max(0, Int64(self / .nanoseconds(1))) }
}

/// How endpoints are reached.
package struct EndpointClientSettings: Sendable {
    /// Accepts `http`, and addresses that are not public.
    package let allowsPrivate: Bool
    package let resolver: HostResolver
    package let timeout: Duration
    /// The issuers of certificates that are accepted.
    private let trustRoots: NIOSSLTrustRoots

    /// - Parameter trustRoots: Those of the operating system by default.
    package init(
        allowsPrivate: Bool, resolver: HostResolver = .system, timeout: Duration = Limits.attemptTimeMax,
        trustRoots: NIOSSLTrustRoots = .default
    ) {
        self.allowsPrivate = allowsPrivate
        self.resolver = resolver
        self.timeout = timeout
        self.trustRoots = trustRoots
    }

    fileprivate func configuration(_ host: String, _ address: NetworkAddress) -> HTTPClient.Configuration {
        // No redirects: they would lead to an address that is not configured.
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow, decompression: .disabled)
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.trustRoots = trustRoots
        configuration.tlsConfiguration = tls
        configuration.dnsOverride = [host: address.description]
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Limits.endpointFlightsMax
        // Retried and counted by the caller.
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }
}
