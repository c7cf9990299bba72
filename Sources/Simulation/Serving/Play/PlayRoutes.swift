import Encoding
import HTTPTypes
import Hummingbird
import NIOCore

/// Google's hosts under one address, and routes for tests: the requests so far, the messages pushed, keys to rotate,
/// accounts to delete.
struct PlayRoutes: Sendable {
    let play: SimulatedPlay
    /// The delay of a slow response.
    let slowness: Duration

    /// More than any request needs.
    private static let bodyBytesMax = 1 << 20
    private static let api = "/google/androidpublisher/v3/applications"

    func add(to router: Router<StoreContext>) {
        router.post("/google/token") { request, context in
            let body = Array(buffer: try await request.body.collect(upTo: Self.bodyBytesMax))
            let response = play.tokenResponse(contentType: request.headers[.contentType], body: body)
            return try await respond(.response(response), context)
        }
        router.get("/google/oauth2/v3/certs") { _, context in
            try await respond(.response(play.keysResponse()), context)
        }
        for method in [HTTPRequest.Method.get, .post, .put, .delete] {
            router.on(RouterPath("\(Self.api)/**"), method: method) { request, context in
                try await call(request, context)
            }
        }
        router.get("/google/requests") { _, _ in requests() }
        router.get("/google/messages") { _, _ in messages() }
        router.post("/google/keys/rotate") { _, _ in
            play.rotateKeys()
            return Response(status: .noContent)
        }
        router.delete("/google/purchases/:token") { _, context in
            play.deleteAccount(of: context.parameters.get("token") ?? "")
            return Response(status: .noContent)
        }
    }

    private func call(_ request: Request, _ context: StoreContext) async throws -> Response {
        let depth = Self.api.split(separator: "/").count + 1
        let path = request.uri.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst(depth)
        let call = PlayCall(
            method: request.method.rawValue, path: path.map { $0.removingPercentEncoding ?? String($0) },
            query: request.uri.queryParameters.map { (name: String($0.key), value: String($0.value)) },
            authorization: request.headers[.authorization],
            body: Array(buffer: try await request.body.collect(upTo: Self.bodyBytesMax)))
        return try await respond(play.reaction(to: call), context)
    }

    private func respond(_ reaction: SimulatedPlay.Reaction, _ context: StoreContext) async throws -> Response {
        switch reaction {
        case .closed:
            try await context.channel.close()
            throw HTTPError(.serviceUnavailable)
        case .response(let response):
            if response.isSlow { try await Task.sleep(for: slowness) }
            var sent = Response(
                status: .init(code: response.status), body: .init(byteBuffer: ByteBuffer(bytes: response.body)))
            sent.headers[.contentType] = response.contentType
            sent.headers[.retryAfter] = response.retryAfter
            sent.headers[.cacheControl] = response.cacheControl
            return sent
        }
    }

    private func requests() -> Response {
        .json { writer in
            writer.key("tokenRequests")
            writer.object { writer in
                for (answer, count) in play.tokenCounts.sorted(by: { $0.key < $1.key }) {
                    writer.key(answer)
                    writer.value(count)
                }
            }
            writer.member("keyRequests", play.keyRequests)
            writer.key("apiRequests")
            writer.array(play.counts) { $1.write(to: &$0) }
            writer.key("acknowledgements")
            writer.array(play.acknowledgements) { writer, acknowledgement in
                writer.object { writer in
                    writer.member("purchaseToken", acknowledgement.purchaseToken)
                    writer.member("at", acknowledgement.at)
                    writer.member("isRepeated", acknowledgement.isRepeated)
                }
            }
            let quota = play.quota
            writer.member("quotaViolations", quota.violations)
            writer.key("busiestMinutes")
            writer.object { writer in
                for bucket in PlayEndpoint.Bucket.allCases {
                    writer.key(bucket.rawValue)
                    writer.value(quota.busiestMinutes[bucket] ?? 0)
                }
            }
        }
    }

    private func messages() -> Response {
        .json { writer in
            writer.key("deliveries")
            writer.array(play.deliveries) { $1.write(to: &$0) }
            writer.member("expired", play.expiredMessages)
        }
    }
}

extension Response {
    /// A JSON object with a line feed after it.
    static func json(_ write: (inout JSONWriter) -> Void) -> Response {
        var writer = JSONWriter()
        writer.object(write)
        return Response(
            status: .ok, headers: [.contentType: "application/json"],
            body: .init(byteBuffer: ByteBuffer(bytes: writer.bytes + [UInt8(ascii: "\n")])))
    }
}
