import AsyncHTTPClient
import Encoding
import NIOCore

/// The notification URL of an app's server.
package struct NotificationTarget: Sendable {
    private let url: String
    private let client: HTTPClient

    private static let answerWaitMax = TimeAmount.seconds(30)
    private static let answerBytesMax = 1 << 16

    package init(url: String, client: HTTPClient = .shared) {
        self.url = url
        self.client = client
    }

    package func post(_ body: [UInt8]) async -> SendAttempt.Result {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: body))
        do {
            let response = try await client.execute(request, timeout: Self.answerWaitMax)
            // Read to its end so that the connection can be reused.
            _ = try await response.body.collect(upTo: Self.answerBytesMax)
            return (200...206).contains(response.status.code) ? .success : .unsuccessfulResponse
        } catch let error as HTTPClientError {
            switch error {
            case .deadlineExceeded, .readTimeout, .connectTimeout: return .timedOut
            case .remoteConnectionClosed: return .prematureClose
            case .redirectCycleDetected, .redirectLimitReached: return .circularRedirect
            default: return .noResponse
            }
        } catch {
            return .noResponse
        }
    }
}
