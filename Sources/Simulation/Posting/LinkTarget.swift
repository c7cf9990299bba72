import AsyncHTTPClient
import Encoding
import NIOCore

/// The private listener to which a backend sends customer links and receipts.
package struct LinkTarget: Sendable {
    /// The base URL.
    let address: String
    let token: String?
    let app: SimulatedApp

    package init(address: String, token: String?, app: SimulatedApp) {
        self.address = address
        self.token = token
        self.app = app
    }

    /// The PUT request; nil if the address is not a URL.
    func request(_ statement: SimulatedStatement) -> HTTPClientRequest? {
        let path = "/customers/\(AnswerReader.segment(statement.statement.backendCustomerId))/links"
        guard var request = AnswerReader.request(address, path, app) else { return nil }
        request.method = .PUT
        request.authorize(token)
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: statement.body()))
        return request
    }

    /// The POST request; nil if the address is not a URL.
    func request(_ handIn: SimulatedHandIn) -> HTTPClientRequest? {
        guard var request = AnswerReader.request(address, "/receipts", app) else { return nil }
        request.method = .POST
        request.authorize(token)
        request.headers.add(name: "content-type", value: "application/json")
        var writer = JSONWriter()
        writer.object { $0.member("receipt", Base64.text(handIn.receipt)) }
        request.body = .bytes(ByteBuffer(bytes: writer.bytes))
        return request
    }
}
