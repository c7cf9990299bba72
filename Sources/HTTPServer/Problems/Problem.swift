import EventLog
import HTTPTypes
import Hummingbird
import NIOCore

/// An error response of the private listener, in the form of RFC 9457. Thrown by routes.
///
/// Its `type` is `about:blank`: the status identifies the kind of problem, and `field` the invalid parameter or member
/// of the request, if there is one.
struct Problem: Error {
    let status: HTTPResponse.Status
    /// A message for people. Contains no values from the request.
    let detail: String
    let field: String?
    let headers: HTTPFields
    /// The receipt that is refused or pending, if there is one.
    let receipt: RefusedReceipt?

    struct RefusedReceipt: Hashable {
        let id: String
        /// Apple's status; nil if Apple did not answer.
        let appStoreStatus: Int32?
    }

    init(
        _ status: HTTPResponse.Status, _ detail: String, field: String? = nil, headers: HTTPFields = [:],
        receipt: RefusedReceipt? = nil
    ) {
        self.status = status
        self.detail = detail
        self.field = field
        self.headers = headers
        self.receipt = receipt
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
        case .noRoom: self.init(.serviceUnavailable, "too many request bodies are being received")
        case .ending: self.init(.serviceUnavailable, "the server is shutting down")
        case .tooSlow: self.init(.requestTimeout, "the body did not arrive in time")
        case .incomplete: self.init(.badRequest, "the body is incomplete")
        }
    }

    var response: Response {
        var response = JSONResponse.json(status) { writer in
            writer.member("type", "about:blank")
            writer.member("title", status.reasonPhrase)
            writer.member("status", status.code)
            writer.member("detail", detail)
            writer.member("field", field)
            writer.member("receiptId", receipt?.id)
            writer.member("appStoreStatus", receipt?.appStoreStatus)
        }
        response.headers[.contentType] = "application/problem+json"
        if status == .serviceUnavailable { response.headers[.retryAfter] = String(Limits.retryAfterSeconds) }
        for header in headers { response.headers[header.name] = header.value }
        return response
    }
}
