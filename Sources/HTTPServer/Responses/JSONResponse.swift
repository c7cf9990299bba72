import Encoding
import HTTPTypes
import Hummingbird
import NIOCore

/// Creates responses with one line of JSON. Errors of the public listener are `{"error":"…"}`; for those of the private
/// listener see ``Problem``.
enum JSONResponse {
    static func json(
        _ status: HTTPResponse.Status, _ write: (inout JSONWriter) throws -> Void
    ) rethrows -> Response {
        var writer = JSONWriter()
        try writer.object(write)
        return Response(
            status: status, headers: [.contentType: "application/json"],
            body: .init(byteBuffer: ByteBuffer(bytes: writer.bytes + [UInt8(ascii: "\n")])))
    }

    static func error(_ status: HTTPResponse.Status, _ problem: String) -> Response {
        var response = json(status) { $0.member("error", problem) }
        if status == .serviceUnavailable || status == .tooManyRequests {
            response.headers[.retryAfter] = String(Limits.retryAfterSeconds)
        }
        return response
    }
}

/// Converts errors of the framework on the public listener (unknown route, malformed request) to the same form as its
/// other errors.
struct ErrorResponseMiddleware<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as any HTTPResponseError {
            return JSONResponse.error(error.status, error.status.reasonPhrase.lowercased())
        }
    }
}
