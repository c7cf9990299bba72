import Encoding

/// A request to the simulated Google Play Developer API.
package struct PlayCall: Sendable {
    package let method: String
    /// The segments of the path after `applications`; the package is the first one.
    package let path: [String]
    package let query: [(name: String, value: String)]
    /// The header of this name.
    package let authorization: String?
    package let body: [UInt8]

    package init(
        method: String, path: [String], query: [(name: String, value: String)] = [], authorization: String?,
        body: [UInt8] = []
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.authorization = authorization
        self.body = body
    }

    func values(_ name: String) -> [String] { query.filter { $0.name == name }.map(\.value) }

    func value(_ name: String) -> String? { values(name).last }
}

/// An error of the simulated Google Play Developer API.
package struct PlayError: Error, Sendable, Hashable {
    package let code: Int
    package let reason: String
    /// Google's `error.status`; nil if the error has none.
    package let status: String?
    package let domain: String
    package let message: String

    package init(
        _ code: Int, _ reason: String, _ message: String, status: String? = nil, domain: String = "androidpublisher"
    ) {
        self.code = code
        self.reason = reason
        self.message = message
        self.status = status
        self.domain = domain
    }

    var body: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("error")
            writer.object { writer in
                writer.member("code", code)
                writer.member("message", message)
                writer.key("errors")
                writer.array([self]) { writer, error in
                    writer.object { writer in
                        writer.member("message", error.message)
                        writer.member("domain", error.domain)
                        writer.member("reason", error.reason)
                    }
                }
                writer.member("status", status)
            }
        }
        return writer.bytes
    }
}

extension PlayError {
    static let invalidToken = PlayError(400, "invalid", "Invalid Value", domain: "global")
    static let mismatch = PlayError(400, "purchaseTokenMismatch", "The purchase token does not match the product ID.")
    static let otherPackage = PlayError(
        400, "purchaseTokenDoesNotMatchPackageName", "The purchase token does not match the package name.")
    static let invalidValue = PlayError(400, "invalidValue", "Invalid value.", domain: "global")
    static let required = PlayError(400, "required", "A required parameter is missing.", domain: "global")
    static let invalidState = PlayError(
        400, "invalidPurchaseState", "The purchase is not in a valid state to perform the desired operation.")
    static let notOwned = PlayError(400, "productNotOwnedByUser", "The product purchase is not owned by the user.")
    static let expiredLongAgo = PlayError(
        400, "failedPrecondition", "The subscription purchase has expired for too long.",
        status: "FAILED_PRECONDITION", domain: "global")
    static let login = PlayError(
        401, "required", "Request is missing required authentication credential.", status: "UNAUTHENTICATED",
        domain: "global")
    static let credentials = PlayError(
        401, "authError", "Request had invalid authentication credentials.", status: "UNAUTHENTICATED",
        domain: "global")
    static let noAccess = PlayError(401, "permissionDenied", "The current user has insufficient permissions.")
    static let forbidden = PlayError(403, "forbidden", "Forbidden", domain: "global")
    static let permission = PlayError(
        403, "permissionDenied", "The current user has insufficient permissions to perform the requested operation.",
        status: "PERMISSION_DENIED")
    static let otherDeveloper = PlayError(
        403, "developerDoesNotOwnApplication", "The developer does not own the application.",
        status: "PERMISSION_DENIED")
    static let notFound = PlayError(404, "notFound", "Not Found", status: "NOT_FOUND", domain: "global")
    static let unknownToken = PlayError(
        404, "purchaseTokenNotFound", "The purchase token was not found.", status: "NOT_FOUND")
    static let conflict = PlayError(
        409, "concurrentUpdate", "The purchase was modified concurrently.", status: "ABORTED")
    static let tooOld = PlayError(
        410, "subscriptionPurchaseNoLongerAvailable", "The subscription purchase is no longer available for query.")
    static let otherKind = PlayError(
        410, "purchaseTokenNoLongerValid", "The purchase token is no longer valid.")
    static let deleted = PlayError(
        410, "subscriptionNoLongerAvailable", "The user account has been deleted.")
    static let backend = PlayError(500, "backendError", "Backend Error", status: "INTERNAL", domain: "global")

    /// The forms of a refusal for quota.
    static func quota(_ form: PlayQuota.Form) -> PlayError {
        switch form {
        case .forbidden:
            PlayError(403, "rateLimitExceeded", "Rate Limit Exceeded", domain: "usageLimits")
        case .tooManyRequests:
            PlayError(
                429, "rateLimitExceeded", "Quota exceeded.", status: "RESOURCE_EXHAUSTED", domain: "global")
        case .quotaExceeded:
            PlayError(429, "quotaExceeded", "Quota exceeded.", status: "RESOURCE_EXHAUSTED", domain: "usageLimits")
        case .daily:
            PlayError(
                429, "dailyLimitExceeded", "Daily Limit Exceeded", status: "RESOURCE_EXHAUSTED", domain: "usageLimits")
        }
    }
}

/// The response to a request of the API or of the token endpoint.
package struct PlayResponse: Sendable, Hashable {
    package var status = 200
    /// Nil for a response without a body.
    package var contentType: String? = "application/json; charset=UTF-8"
    package var body: [UInt8] = []
    package var retryAfter: String?
    package var cacheControl: String?
    /// Sent long after the request.
    package var isSlow = false

    static func json(_ body: [UInt8], status: Int = 200) -> PlayResponse { PlayResponse(status: status, body: body) }

    static let empty = PlayResponse(status: 204, contentType: nil)

    static func page(_ status: Int, _ title: String) -> PlayResponse {
        PlayResponse(
            status: status, contentType: "text/html; charset=UTF-8",
            body: Array("<!DOCTYPE html><title>Error \(status)</title><p>\(title)</p>\n".utf8))
    }

    static func error(_ error: PlayError, retryAfter: String? = nil) -> PlayResponse {
        PlayResponse(status: error.code, body: error.body, retryAfter: retryAfter)
    }
}
