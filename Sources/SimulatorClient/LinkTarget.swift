import AsyncHTTPClient
import NIOCore
import StoreSimulator

/// The private listener to which a backend sends customer links.
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
}
