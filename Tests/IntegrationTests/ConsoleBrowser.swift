import EventLog
import Foundation
import HTTPTypes
import TestSupport
import Testing

/// A browser without script: keeps its cookies, follows no redirect, and sends forms with their origin.
final class ConsoleBrowser: Sendable {
    let port: Int

    struct Page: Sendable {
        let status: Int
        let headers: [String: String]
        let body: String

        var location: String? { headers["location"] }

        /// The value of the hidden field of the first form that has it.
        func field(_ name: String) -> String? {
            let pattern = "name=\"\(name)\" value=\""
            guard let start = body.range(of: pattern) else { return nil }
            return String(body[start.upperBound...].prefix { $0 != "\"" })
        }
    }

    init(port: Int) {
        self.port = port
    }

    func get(_ path: String, cookie: String? = nil) async throws -> Page {
        try await send("GET", path, cookie: cookie, body: nil, origin: nil)
    }

    /// - Parameter origin: Nil for the page's own.
    func post(
        _ path: String, _ fields: [(String, String)], cookie: String? = nil, origin: String? = nil
    ) async throws -> Page {
        let allowed = CharacterSet.alphanumerics
        let body = fields.map { name, value in
            "\(name)=\(value.addingPercentEncoding(withAllowedCharacters: allowed) ?? "")"
        }.joined(separator: "&")
        return try await send(
            "POST", path, cookie: cookie, body: Array(body.utf8), origin: origin ?? "http://127.0.0.1:\(port)")
    }

    /// Sends a form with a file, as browsers do.
    ///
    /// - Parameter file: Its field, name and content.
    func upload(
        _ path: String, _ fields: [(String, String)], file: (field: String, name: String, content: [UInt8]),
        cookie: String
    ) async throws -> Page {
        let boundary = "----BrowserBoundary7d2f"
        var body: [UInt8] = []
        for (name, value) in fields {
            body += Array("--\(boundary)\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(value)\r\n".utf8)
        }
        let disposition = "form-data; name=\"\(file.field)\"; filename=\"\(file.name)\""
        body += Array("--\(boundary)\r\nContent-Disposition: \(disposition)\r\nContent-Type: text/csv\r\n\r\n".utf8)
        body += file.content + Array("\r\n--\(boundary)--\r\n".utf8)
        return try await send(
            "POST", path, cookie: cookie, body: body, origin: "http://127.0.0.1:\(port)",
            type: "multipart/form-data; boundary=\(boundary)")
    }

    private func send(
        _ method: String, _ path: String, cookie: String?, body: [UInt8]?, origin: String?,
        type: String = "application/x-www-form-urlencoded"
    ) async throws -> Page {
        var headers: [String: String] = [:]
        if body != nil { headers["Content-Type"] = type }
        if let cookie { headers["Cookie"] = cookie }
        if let origin, !origin.isEmpty { headers["Origin"] = origin }
        let answer = try await LocalRequest(port: port, method, path, headers: headers, body: body).send()
        return Page(status: answer.status, headers: answer.headers, body: answer.body)
    }

    /// Logs in, and returns the cookie of the session.
    func login(_ token: String) async throws -> String {
        let page = try await post("/console/login", [("token", token)])
        #expect(page.status == 303)
        let cookie = try #require(page.headers["set-cookie"])
        return String(cookie.prefix { $0 != ";" })
    }
}

extension TestBundle {
    var browser: ConsoleBrowser { ConsoleBrowser(port: backend.port) }

    /// A browser with the cookie of a session whose token has the scope.
    func session(_ scope: TokenScope = .read) async throws -> (browser: ConsoleBrowser, cookie: String) {
        let browser = browser
        let token = scope == .read ? backend.token : scope == .admin ? owner.token : nil
        let text: String
        if let token { text = token } else { text = try await TestBundle.token(scope, database) }
        return (browser, try await browser.login(text))
    }
}
