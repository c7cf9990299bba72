import AsyncHTTPClient
import Encoding
import NIOCore
import Synchronization

/// Hands purchases of Google Play in to a server, as an app's backend does.
package final class PurchasePoster: Sendable {
    private let address: String
    private let token: String?
    private let app: SimulatedApp
    private let client: HTTPClient
    private let connections: Int
    private let counted = Mutex(PostingCounts())

    private static let answerWaitMax = TimeAmount.seconds(60)
    private static let answerBytesMax = 1 << 22

    /// - Parameters:
    ///   - address: The base URL of the private listener.
    ///   - packageName: Of the app.
    package init(address: String, token: String?, packageName: String, connections: Int) {
        self.address = address
        self.token = token
        self.connections = connections
        app = SimulatedApp(bundleId: packageName)
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        configuration.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    package var counts: PostingCounts { counted.withLock { $0 } }

    /// Closes the connections. Call it once, when no request is in flight.
    package func end() async { try? await client.shutdown() }

    /// Hands purchases in concurrently.
    ///
    /// - Returns: Those that the server could not take, to be handed in again.
    package func send(_ handIns: [PlayHandIn]) async -> [PlayHandIn] {
        let next = SharedCounter()
        return await withTaskGroup(of: [PlayHandIn].self) { group in
            for _ in 0..<min(connections, handIns.count) {
                group.addTask {
                    var failed: [PlayHandIn] = []
                    while true {
                        let mine = next.add()
                        guard mine < handIns.count else { return failed }
                        if await !self.send(handIns[mine]) { failed.append(handIns[mine]) }
                    }
                }
            }
            return await group.reduce(into: []) { $0 += $1 }.sorted {
                ($0.at, $0.purchaseToken) < ($1.at, $1.purchaseToken)
            }
        }
    }

    /// - Returns: False if it must be sent again.
    private func send(_ handIn: PlayHandIn) async -> Bool {
        // Some are test purchases.
        guard var request = AnswerReader.request(address, "/purchases", app, environment: "any") else { return true }
        request.method = .POST
        request.authorize(token)
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: body(handIn)))
        let status = await answer(to: request)
        guard let status, status < 500 else {
            counted.withLock { $0.retries += 1 }
            return false
        }
        counted.withLock { $0.add(status: status, isRefused: false) }
        return true
    }

    /// About half of the purchases as the text that Google Play signed for the app.
    private func body(_ handIn: PlayHandIn) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            if handIn.at.milliseconds % 2 == 0 {
                let signed = SignedPlayPurchase(handIn, packageName: app.bundleId)
                writer.member("signedPurchase", String(decoding: signed.text, as: UTF8.self))
                writer.member("signature", signed.signature)
            } else {
                writer.member("purchaseToken", handIn.purchaseToken)
                writer.member("productId", handIn.productId)
            }
        }
        return writer.bytes
    }

    /// The status; nil if there was no answer.
    private func answer(to request: HTTPClientRequest) async -> Int? {
        do {
            let response = try await client.execute(request, timeout: Self.answerWaitMax)
            _ = try await response.body.collect(upTo: Self.answerBytesMax)
            return Int(response.status.code)
        } catch {
            return nil
        }
    }
}
