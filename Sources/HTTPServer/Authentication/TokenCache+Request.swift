import EventLog
import HTTPTypes
import Hummingbird
import Metrics

extension TokenCache {
    /// The active token of a request, in its header `Authorization: Bearer …`.
    ///
    /// - Throws: ``Problem`` with status 401 if there is none.
    func token(of request: Request) async throws -> ActiveToken {
        guard let credentials = request.headers[.authorization] else {
            throw Self.refusal(.unauthorized, "token_missing", "missing bearer token", challenge: "Bearer")
        }
        guard let token = Self.token(credentials), let known = try await active(token) else {
            throw Self.refusal(
                .unauthorized, "token_wrong", "the token is unknown or revoked",
                challenge: "Bearer error=\"invalid_token\"")
        }
        return known
    }

    /// The refusal of a request whose token has another scope than the required one.
    static func scopeMissing(_ granted: TokenScope, _ required: TokenScope) -> Problem {
        refusal(
            .forbidden, "scope_missing",
            "the token has scope \(granted.rawValue), but \(required.rawValue) is required",
            challenge: "Bearer error=\"insufficient_scope\", scope=\"\(required.rawValue)\"")
    }

    private static func token(_ credentials: String) -> AccessToken? {
        guard let space = credentials.utf8.firstIndex(of: UInt8(ascii: " ")),
            credentials[..<space].lowercased() == "bearer"
        else { return nil }
        return AccessToken(String(credentials[space...].drop { $0 == " " }))
    }

    /// Source: RFC 6750, section 3.
    private static func refusal(
        _ status: HTTPResponse.Status, _ reason: String, _ detail: String, challenge: String
    ) -> Problem {
        Counter(label: "subledger_requests_refused_total", dimensions: [("reason", reason)]).increment()
        return Problem(status, detail, headers: [.wwwAuthenticate: challenge])
    }
}
