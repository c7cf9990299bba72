import Console
import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Metrics
import Readers

/// Logs in and out, and lets only requests of a session pass.
struct ConsoleGate: Sendable {
    let tokens: TokenCache
    let sessions: ConsoleSessions
    let transport: ConsoleTransport
    /// Before the answer to a failed login, so that guessing is slow.
    let pause: Duration
    private let bodies = BodyReader()

    init(tokens: TokenCache, sessions: ConsoleSessions, transport: ConsoleTransport, pause: Duration) {
        self.tokens = tokens
        self.sessions = sessions
        self.transport = transport
        self.pause = pause
    }

    // MARK: - Sessions

    /// The session of a request; nil if it has none, or none any longer.
    func session(of request: Request) async throws(ReadError) -> ConsoleSession? {
        guard let secret = secret(of: request), let session = try await sessions.session(of: secret),
            session.scope.includes(.read)
        else { return nil }
        return session
    }

    private func secret(of request: Request) -> ConsoleSecret? {
        Self.cookie(transport.cookie, of: request).flatMap { ConsoleSecret($0) }
    }

    static func cookie(_ name: String, of request: Request) -> String? {
        for header in request.headers[values: .cookie] {
            for pair in header.split(separator: ";") {
                let parts = pair.split(separator: "=", maxSplits: 1)
                guard parts.count == 2, parts[0].drop(while: { $0 == " " }) == name else { continue }
                return String(parts[1])
            }
        }
        return nil
    }

    /// The fields of a form of a session.
    ///
    /// - Throws: ``ConsoleProblem`` with status 403 if the form is not one of the session's.
    func form(
        of request: Request, in session: ConsoleSession, bytesMax: Int = Limits.consoleFormBytesMax
    ) async throws -> ConsoleQuery {
        let form = try await form(of: request, bytesMax: bytesMax)
        guard let csrf = try form.text("csrf"), session.matches(csrf: csrf) else {
            throw ConsoleProblem(.forbidden, "Not done", "The form is not of this session. Open the page again.")
        }
        return form
    }

    /// - Throws: ``ConsoleProblem`` with status 403 if another site sent the form.
    private func form(
        of request: Request, bytesMax: Int = Limits.consoleFormBytesMax
    ) async throws -> ConsoleQuery {
        let host = request.head.authority
        // A page of plain HTTP is not one of a console with TLS: anybody on the way can write it.
        let scheme = transport == .tls ? "https" : "http"
        guard let host, request.headers[.origin] == "\(scheme)://\(host)" else {
            throw ConsoleProblem(.forbidden, "Not done", "The form was not sent from this page.")
        }
        let boundary = request.headers[.contentType].flatMap { MultipartForm.boundary($0) }
        return try await bodies.withBody(of: request, bytesMax: bytesMax) { body in
            guard let boundary else { return ConsoleQuery(form: FormFields.parse(body)) }
            guard let parts = MultipartForm.parse(body, boundary: boundary) else {
                throw ConsoleProblem(.badRequest, "Not done", "The form cannot be read: its parts are incomplete.")
            }
            return ConsoleQuery(
                form: parts.filter { !$0.isFile }.map { ($0.name, String(decoding: $0.content, as: UTF8.self)) },
                files: parts.filter(\.isFile).map { ($0.name, Array($0.content)) })
        }
    }

    // MARK: - Login

    func loginPage(_ request: Request) -> Response {
        let query = ConsoleQuery(request)
        let ticket = (try? query.text("ticket")).flatMap { $0 }.flatMap { ConsoleSecret($0) }
        let back = (try? query.text("back")).flatMap { $0 }
        guard transport != .exposed else { return Self.exposed }
        return ConsoleResponse.html(.ok, BarePage.login(ticket: ticket?.text, back: back))
    }

    func login(_ request: Request) async throws -> Response {
        guard transport != .exposed else { return Self.exposed }
        let form = try await form(of: request)
        guard let secret = try await session(form) else {
            count("refused")
            try await Task.sleep(for: pause)
            return ConsoleResponse.html(
                .forbidden,
                BarePage.login(
                    problem:
                        "This does not log in: it is unknown, used, expired or revoked, or its scope does not include reading."
                ))
        }
        count("begun")
        let back = try form.text("back").flatMap(Self.safe) ?? "/console"
        return ConsoleResponse.seeOther(back, cookies: [transport.cookie(secret.text)])
    }

    /// Begins the session of a form with a token or a ticket.
    private func session(_ form: ConsoleQuery) async throws -> ConsoleSecret? {
        if let ticket = try form.text("ticket").flatMap({ ConsoleSecret($0) }) {
            return try await sessions.redeem(ticket)
        }
        guard let token = try form.text("token").flatMap({ AccessToken($0) }),
            let scope = try await tokens.scope(of: token), scope.includes(.read)
        else { return nil }
        return try await sessions.begin(token)
    }

    func logout(_ request: Request, in session: ConsoleSession) async throws -> Response {
        _ = try await form(of: request, in: session)
        if let secret = secret(of: request) { try await sessions.end(secret) }
        return ConsoleResponse.seeOther("/console/login", cookies: [transport.cookie("", maxAge: 0)])
    }

    /// An address of the console to which a browser can be sent; nil for any other text.
    static func safe(_ location: String) -> String? {
        guard location == "/console" || location.hasPrefix("/console/") || location.hasPrefix("/console?"),
            location.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") })
        else { return nil }
        return location
    }

    private func count(_ result: String) {
        Counter(label: "subledger_console_logins_total", dimensions: [("result", result)]).increment()
    }

    private static let exposed = ConsoleResponse.html(
        .forbidden,
        BarePage.problem(
            "No login without TLS",
            "This listener is reachable from other machines without TLS, so a token would be readable on the way. Configure a certificate, or open the console on the machine itself. If a proxy ends TLS, or the port is published on the machine itself only, say so with SUBLEDGER_PRIVATE_FRONT."
        ))
}

/// How browsers reach the private listener, which decides how their cookie is protected.
package enum ConsoleTransport: Sendable, Hashable {
    case tls
    /// Plain HTTP, on this machine only.
    case loopback
    /// Plain HTTP that other machines can reach: logins are rejected.
    case exposed

    /// What an operator can say of a listener that other machines can reach, and that has no certificate of its own.
    package enum Front: String, Sendable, CaseIterable {
        /// A proxy ends TLS in front of the listener, and nothing else reaches it.
        case tls = "tls-proxy"
        /// Its port is published on the machine itself only, as by a container or `kubectl port-forward`.
        case loopback
    }

    package init(host: String, hasTLS: Bool, front: Front? = nil) {
        if let front, !hasTLS {
            self = front == .tls ? .tls : .loopback
            return
        }
        let isLocal = host == "localhost" || host == "::1" || host.hasPrefix("127.")
        self = hasTLS ? .tls : isLocal ? .loopback : .exposed
    }

    /// The `__Host-` prefix makes browsers refuse the cookie of a subdomain or of plain HTTP.
    var cookie: String { self == .tls ? "__Host-subledger" : "subledger" }

    func cookie(_ value: String, maxAge: Int? = nil) -> String {
        "\(cookie)=\(value); HttpOnly; SameSite=Strict; Path=/" + (self == .tls ? "; Secure" : "")
            + (maxAge.map { "; Max-Age=\($0)" } ?? "")
    }
}
