import HTTPTypes
import Hummingbird
import NIOCore

/// Responses of the console, all with the headers that keep a browser from doing more than showing them.
enum ConsoleResponse {
    static func html(_ status: HTTPResponse.Status, _ bytes: [UInt8]) -> Response {
        response(status, bytes, type: "text/html; charset=utf-8")
    }

    static func csv(_ text: String, name: String) -> Response {
        var response = response(.ok, Array(text.utf8), type: "text/csv; charset=utf-8")
        response.headers[.contentDisposition] = "attachment; filename=\"\(name).csv\""
        return response
    }

    /// A file that is the same for every session.
    static func asset(_ bytes: [UInt8], type: String) -> Response {
        var response = response(.ok, bytes, type: type)
        response.headers[.cacheControl] = "max-age=300"
        return response
    }

    /// Sends the browser to another page of the console.
    static func seeOther(_ location: String, cookies: [String] = []) -> Response {
        var response = response(.seeOther, [], type: "text/plain; charset=utf-8")
        response.headers[.location] = location
        for cookie in cookies { response.headers.append(HTTPField(name: .setCookie, value: cookie)) }
        return response
    }

    private static func response(_ status: HTTPResponse.Status, _ bytes: [UInt8], type: String) -> Response {
        var headers: HTTPFields = [.contentType: type, .cacheControl: "no-store"]
        headers[.contentSecurityPolicy] = policy
        headers[.xContentTypeOptions] = "nosniff"
        if let name = HTTPField.Name("Referrer-Policy") {
            // With no-referrer, browsers would also send no origin with forms, and it is what forms are checked by.
            headers[name] = "same-origin"
        }
        if status == .serviceUnavailable { headers[.retryAfter] = String(Limits.retryAfterSeconds) }
        return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: bytes)))
    }

    /// `connect-src`: the live switch reads the page again.
    private static let policy =
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        + "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}
