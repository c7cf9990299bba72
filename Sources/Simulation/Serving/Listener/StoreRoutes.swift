import Encoding
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import Subscriptions

/// The store's two hosts under one address, and routes for tests: the requests so far, the notifications sent, accounts to
/// delete.
struct StoreRoutes: Sendable {
    let store: SimulatedStore

    /// More than Apple accepts.
    private static let bodyBytesMax = 16 << 20

    func add(to router: Router<StoreContext>) {
        for host in [Subscriptions.Environment.production, .sandbox] {
            let path = RouterPath("/\(host.rawValue)/verifyReceipt")
            router.post(path) { request, context in
                try await verify(Array(buffer: request.body.collect(upTo: Self.bodyBytesMax)), host, context)
            }
            // Answered with status 21000 in the body.
            router.get(path) { _, context in try await verify(nil, host, context) }
            router.put(path) { _, context in try await verify(nil, host, context) }
            router.delete(path) { _, context in try await verify(nil, host, context) }
            for method in [HTTPRequest.Method.get, .post, .put, .delete] {
                router.on(RouterPath("/\(host.rawValue)/inApps/**"), method: method) { request, context in
                    try await call(request, host, context)
                }
            }
        }
        router.get("/requests") { _, _ in requests() }
        router.get("/notifications") { _, _ in notifications() }
        router.delete("/accounts/:originalTransactionId") { _, context in
            let isKnown = store.deleteAccount(of: context.parameters.get("originalTransactionId") ?? "")
            return Response(status: isKnown ? .noContent : .notFound)
        }
    }

    private func verify(
        _ body: [UInt8]?, _ host: Subscriptions.Environment, _ context: StoreContext
    ) async throws -> Response {
        try await respond(store.reaction(to: body, host: host), context)
    }

    private func call(
        _ request: Request, _ host: Subscriptions.Environment, _ context: StoreContext
    ) async throws -> Response {
        // Without the host and `inApps`.
        let path = request.uri.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst(3)
        let call = StoreAPICall(
            host: host, method: request.method.rawValue,
            path: path.map { $0.removingPercentEncoding ?? String($0) },
            query: request.uri.queryParameters.map { (name: String($0.key), value: String($0.value)) },
            authorization: request.headers[.authorization],
            body: Array(buffer: try await request.body.collect(upTo: Self.bodyBytesMax)))
        let reaction = store.reaction(to: call)
        if request.method != .get {
            // The answer does not wait for the notifications that the request caused.
            Task { await store.sendNotifications() }
        }
        return try await respond(reaction, context)
    }

    private func respond(_ reaction: SimulatedStore.Reaction, _ context: StoreContext) async throws -> Response {
        switch reaction {
        case .closed:
            try await context.channel.close()
            throw HTTPError(.serviceUnavailable)
        case .response(let response):
            if response.isSlow { try await Task.sleep(for: store.slowness) }
            var sent = Response(
                status: .init(code: response.status), body: .init(byteBuffer: ByteBuffer(bytes: response.body)))
            sent.headers[.contentType] = response.contentType
            sent.headers[.retryAfter] = response.retryAfter
            return sent
        }
    }

    private func requests() -> Response {
        .json { writer in
            writer.key("requests")
            writer.array(store.counts) { $1.write(to: &$0) }
            writer.key("apiRequests")
            writer.array(store.api.counts) { $1.write(to: &$0) }
            writer.key("consumptions")
            writer.array(store.api.consumptions) { $1.write(to: &$0) }
        }
    }

    private func notifications() -> Response {
        .json { writer in
            writer.key("notifications")
            writer.array(store.notifications) { $1.write(to: &$0) }
        }
    }
}

/// The context of a request, with the connection that it came on.
struct StoreContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}
