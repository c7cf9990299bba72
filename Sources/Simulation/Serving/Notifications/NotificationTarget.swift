import AsyncHTTPClient
import Encoding
import NIOCore

/// The notification URL of an app's server.
package struct NotificationTarget: Sendable {
    private let url: String

    private static let answerWaitMax = TimeAmount.seconds(30)
    /// The acknowledgement deadline of a push subscription.
    private static let pushWaitMax = TimeAmount.seconds(10)
    private static let answerBytesMax = 1 << 16
    /// Of the process. It does not try again by itself to connect: the store has a plan for that.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    package init(url: String) {
        self.url = url
    }

    /// Posts a push of the simulated Google Play.
    ///
    /// - Returns: The HTTP status; nil if there was no answer in ten seconds.
    package func push(_ pushed: PlaySending.Request) async -> Int? {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        for (name, value) in pushed.headers { request.headers.add(name: name, value: value) }
        request.body = .bytes(ByteBuffer(bytes: pushed.body))
        do {
            let response = try await Self.client.execute(request, timeout: Self.pushWaitMax)
            _ = try await response.body.collect(upTo: Self.answerBytesMax)
            return Int(response.status.code)
        } catch {
            return nil
        }
    }

    package func post(_ body: [UInt8]) async -> SendAttempt.Result {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: body))
        do {
            let response = try await Self.client.execute(request, timeout: Self.answerWaitMax)
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
