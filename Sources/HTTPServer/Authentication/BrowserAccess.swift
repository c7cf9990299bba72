import HTTPTypes
import Hummingbird

/// How browsers reach the private listener, and by which names.
package struct BrowserAccess: Sendable {
    package let transport: ConsoleTransport
    /// In lower case.
    private let names: Set<String>

    /// - Parameters:
    ///   - names: The names by which the listener is known, beside addresses and names that only a local network has.
    package init(transport: ConsoleTransport = .loopback, names: [String] = []) {
        self.transport = transport
        self.names = Set(names.map { Self.comparable(Substring($0)) })
    }

    /// Whether a request to this host can be answered without a token.
    ///
    /// The owner of any public name can let it lead to this machine, and pages of that name could then read what needs no
    /// token (DNS rebinding). Nobody can register an address, or the names of a local network. With TLS, the certificate
    /// tells whose name it is.
    ///
    /// - Parameter authority: The header `Host`, such as `localhost:8081` or `[::1]`; nil without it, which no browser sends.
    func accepts(_ authority: String?) -> Bool {
        guard transport != .tls, let authority else { return true }
        if authority.hasPrefix("[") { return true }
        let host = Self.comparable(authority.prefix { $0 != ":" })
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count > 1, let last = labels.last else { return true }
        guard !last.isEmpty else { return false }
        // Browsers read a name that ends in a number as an IPv4 address.
        return last.utf8.allSatisfy { (0x30...0x39).contains($0) } || Self.localDomains.contains(String(last))
            || names.contains(host)
    }

    /// Source: RFC 6761, RFC 6762, the reservation of `internal` by ICANN; `svc` is that of services in Kubernetes.
    private static let localDomains: Set = ["localhost", "local", "internal", "svc"]

    private static func comparable(_ host: Substring) -> String {
        (host.last == "." ? host.dropLast() : host).lowercased()
    }

    /// Tells browsers to come back over TLS only; nil for plain HTTP, and for a host that other programs share.
    ///
    /// Source: RFC 6797; browsers ignore it for addresses.
    func strictTransport(_ authority: String?) -> String? {
        guard transport == .tls, let authority else { return nil }
        let host = Self.comparable(authority.prefix { $0 != ":" })
        return host == "localhost" || host.hasSuffix(".localhost") ? nil : "max-age=31536000"
    }
}

/// Passes requests whose host is one of the listener's.
struct RequiresOwnHost<Context: RequestContext>: RouterMiddleware {
    let browsers: BrowserAccess

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        guard browsers.accepts(request.head.authority) else {
            throw Problem(
                .misdirectedRequest,
                "unexpected host: expected an address, a local name or a name in SUBLEDGER_PRIVATE_NAMES")
        }
        return try await next(request, context)
    }
}

/// Keeps browsers from guessing the type of a response, and from coming back without TLS.
struct BrowserHeaders<Context: RequestContext>: RouterMiddleware {
    let browsers: BrowserAccess

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        var response = try await next(request, context)
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[.strictTransportSecurity] = browsers.strictTransport(request.head.authority)
        return response
    }
}
