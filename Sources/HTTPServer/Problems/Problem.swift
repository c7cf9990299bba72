import EventLog
import HTTPTypes
import Hummingbird
import NIOCore
import Subscriptions

/// Why the private listener does not do what it is asked, in the form of RFC 9457. Thrown by routes.
///
/// Its `type` is `about:blank`: the status says what kind of problem it is, and `field` which parameter or member of
/// the request is wrong, if one is.
struct Problem: Error {
    let status: HTTPResponse.Status
    /// For whoever reads it; holds nothing of the request's values.
    let detail: String
    let field: String?
    let headers: HTTPFields

    init(_ status: HTTPResponse.Status, _ detail: String, field: String? = nil, headers: HTTPFields = [:]) {
        self.status = status
        self.detail = detail
        self.field = field
        self.headers = headers
    }

    init(_ error: ReadError) {
        switch error {
        case .unavailable: self.init(.serviceUnavailable, error.description)
        case .damaged: self.init(.internalServerError, error.description)
        }
    }

    init(_ failure: BodyReader.Failure) {
        switch failure {
        case .tooLarge: self.init(.contentTooLarge, "the body is larger than \(Limits.bodyBytesMax) bytes")
        case .noRoom: self.init(.serviceUnavailable, "too many bodies are being received")
        case .ending: self.init(.serviceUnavailable, "the server ends, and the body had not arrived")
        case .tooSlow: self.init(.requestTimeout, "the body did not arrive in time")
        case .incomplete: self.init(.badRequest, "the body did not arrive as a whole")
        }
    }

    var response: Response {
        var response = Answer.json(status) { writer in
            writer.member("type", "about:blank")
            writer.member("title", status.reasonPhrase)
            writer.member("status", status.code)
            writer.member("detail", detail)
            writer.member("field", field)
        }
        response.headers[.contentType] = "application/problem+json"
        if status == .serviceUnavailable { response.headers[.retryAfter] = String(Limits.retryAfterSeconds) }
        for header in headers { response.headers[header.name] = header.value }
        return response
    }
}
