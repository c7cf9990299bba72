import AsyncHTTPClient
import NIOCore
import StoreSimulator

/// Where a backend states whose lines are whose.
struct LinkTarget: Sendable {
    /// Of the private listener.
    let address: String
    let token: String?
    let app: SimulatedApp

    /// Nil if the address cannot be read.
    func request(_ statement: SimulatedStatement) -> HTTPClientRequest? {
        let path = "/customers/\(AnswerReader.segment(statement.statement.customerId))/links"
        guard var request = AnswerReader.request(address, path, app) else { return nil }
        request.method = .PUT
        request.authorize(token)
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: statement.body()))
        return request
    }
}
