import Encoding
import Hummingbird
import Subscriptions

/// Parses the query of a request; errors name the invalid parameter.
struct RequestQuery {
    private let parameters: Parameters

    struct Malformed: Error {
        let problem: String
        /// The invalid parameter or member of the body; nil if the body as a whole is invalid.
        var field: String?
    }

    init(_ request: Request) {
        parameters = request.uri.queryParameters
    }

    /// Returns nil if absent. An empty value is an error, since `at=` must not mean now.
    func text(_ name: String) throws(Malformed) -> String? {
        guard let value = parameters[name[...]] else { return nil }
        guard !value.isEmpty else { throw Malformed(problem: "\(name) must not be empty", field: name) }
        // PostgreSQL strings cannot contain NUL, so no row could match.
        guard !value.utf8.contains(0) else {
            throw Malformed(problem: "\(name) must not contain a NUL character", field: name)
        }
        return String(value)
    }

    /// The app of a request that must name one.
    func app() throws(Malformed) -> String {
        guard let app = try text("app") else { throw Malformed(problem: "app must be a bundle id", field: "app") }
        return app
    }

    /// The stream of a request that must name an app.
    func stream() throws(Malformed) -> StreamKey {
        StreamKey(app: try app(), environment: try environment())
    }

    /// The environment of the query; production by default.
    func environment() throws(Malformed) -> Subscriptions.Environment {
        guard let text = try text("environment") else { return .production }
        return try Self.environment(text)
    }

    /// Which purchases the answer to a hand-in may grant.
    func granting() throws(Malformed) -> GrantedEnvironment {
        guard let text = try text("environment") else { return .only(.production) }
        return text == GrantedEnvironment.anyName ? .any : .only(try Self.environment(text))
    }

    /// - Parameter text: Nil if the value is not a string.
    static func environment(_ text: String?) throws(Malformed) -> Subscriptions.Environment {
        guard let environment = text.flatMap(Subscriptions.Environment.init(rawValue:)) else {
            let all = Subscriptions.Environment.allCases.map(\.rawValue).joined(separator: ", ")
            throw Malformed(problem: "environment must be one of \(all)", field: "environment")
        }
        return environment
    }

    /// The kind of the requested customer id; nil if absent.
    func customerKind() throws(Malformed) -> CustomerKey.Kind? {
        guard let text = try text("as") else { return nil }
        return try Self.customerKind(text, field: "as")
    }

    /// - Parameter text: Nil if the value is not a string.
    static func customerKind(_ text: String?, field: String) throws(Malformed) -> CustomerKey.Kind {
        guard let kind = text.flatMap(CustomerKey.Kind.init(rawValue:)) else {
            let all = CustomerKey.Kind.allCases.map(\.rawValue).joined(separator: ", ")
            throw Malformed(problem: "\(field) must be one of \(all)", field: field)
        }
        return kind
    }

    func number(_ name: String, in range: ClosedRange<Int64>, default fallback: Int64) throws(Malformed) -> Int64 {
        guard let text = try text(name) else { return fallback }
        guard let number = Int64(text), range.contains(number) else {
            throw Malformed(
                problem: "\(name) must be a number from \(range.lowerBound) to \(range.upperBound)", field: name)
        }
        return number
    }

    /// Parses instants that are repeated or separated by commas.
    func instants(_ name: String) throws(Malformed) -> [Instant] {
        var instants: [Instant] = []
        for text in parameters.getAll(name).flatMap({ $0.split(separator: ",") }) {
            instants.append(try Self.instant(name, text))
        }
        guard !instants.isEmpty else {
            throw Malformed(problem: "\(name) must be one or more ISO 8601 instants", field: name)
        }
        return instants
    }

    func instant(_ name: String) throws(Malformed) -> Instant? {
        guard let text = try text(name) else { return nil }
        return try Self.instant(name, text)
    }

    private static func instant(_ name: String, _ text: some StringProtocol) throws(Malformed) -> Instant {
        guard let instant = Instant(iso8601: text) else {
            throw Malformed(problem: "\(name) must be an ISO 8601 instant such as 2019-11-08T08:11:46Z", field: name)
        }
        return instant
    }
}
