import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import StandardWebhooks
import Synchronization

/// A receiver of webhooks on a free port of this machine that answers as a test says.
final class ScriptedReceiver: Sendable {
    enum Reply: Sendable {
        case status(Int, [(String, String)] = [])
        /// No answer until the connection is closed.
        case hang
        /// The connection is reset instead of an answer.
        case reset
        /// Status 200 and a body of this many bytes.
        case large(Int)
    }

    struct Message: Sendable {
        let path: String
        let headers: [String: String]
        let body: [UInt8]

        var id: String { headers[WebhookHeaders.idName] ?? "" }
        var json: [String: Any] { (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:] }
        var line: String { json["subject"] as? String ?? "" }
        var number: Int { (json["data"] as? [String: Any])?["number"] as? Int ?? 0 }
    }

    private struct State {
        /// By line; what is left is answered 200.
        var replies: [String: [Reply]] = [:]
        var usual = Reply.status(200)
        var byPath: [String: Reply] = [:]
        var messages: [Message] = []
        var inFlight: [String: Int] = [:]
        var inFlightMost = 0
        var before: (@Sendable (Message) async -> Void)?
        /// Bytes that were written as the body of a large answer.
        var written = 0
    }

    private let state = Mutex(State())
    private let channel = Mutex<(any Channel)?>(nil)

    private init() {}

    /// Runs the test with a receiver.
    ///
    /// - Parameter certificate: Nil for plain HTTP.
    static func with(
        certificate: ServerCertificate? = nil, _ test: (ScriptedReceiver) async throws -> Void
    ) async throws {
        let receiver = ScriptedReceiver()
        let tls = try certificate.map { certificate in
            try NIOSSLContext(
                configuration: .makeServerConfiguration(
                    certificateChain: [
                        .certificate(try NIOSSLCertificate(bytes: Array(certificate.certificatePEM.utf8), format: .pem))
                    ],
                    privateKey: .privateKey(
                        try NIOSSLPrivateKey(bytes: Array(certificate.keyPEM.utf8), format: .pem))))
        }
        let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(receiver))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        receiver.channel.withLock { $0 = channel }
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(receiver))
        } catch {
            outcome = .failure(error)
        }
        try? await channel.close()
        try outcome.get()
    }

    var port: Int { channel.withLock { $0?.localAddress?.port } ?? 0 }
    var messages: [Message] { state.withLock { $0.messages } }
    /// Numbers of the changes in the order in which they arrived.
    var numbers: [Int] { messages.map(\.number) }
    /// The most requests that were answered at the same time, for one line.
    var inFlightMost: Int { state.withLock { $0.inFlightMost } }
    var written: Int { state.withLock { $0.written } }

    /// Sets the answers to the next messages of a line, in order.
    func answer(_ line: String, _ replies: Reply...) { answer(line, replies) }

    func answer(_ line: String, _ replies: [Reply]) { state.withLock { $0.replies[line] = replies } }

    /// Sets the answer to all other messages.
    func answer(usually reply: Reply) { state.withLock { $0.usual = reply } }

    /// Sets the answer to all other messages to a path.
    func answer(path: String, _ reply: Reply) { state.withLock { $0.byPath[path] = reply } }

    /// Runs before each answer.
    func before(_ body: (@Sendable (Message) async -> Void)?) { state.withLock { $0.before = body } }

    private func receive(_ message: Message) -> Reply {
        state.withLock { state in
            state.messages.append(message)
            state.inFlight[message.line, default: 0] += 1
            state.inFlightMost = max(state.inFlightMost, state.inFlight[message.line] ?? 0)
            var reply = state.byPath[message.path] ?? state.usual
            if var replies = state.replies[message.line], !replies.isEmpty {
                reply = replies.removeFirst()
                state.replies[message.line] = replies
            }
            return reply
        }
    }

    private func answer(_ message: Message, _ reply: Reply, on channel: any Channel) async {
        let before = state.withLock { $0.before }
        await before?(message)
        state.withLock { $0.inFlight[message.line, default: 1] -= 1 }
        try? await Handler.write(reply, to: channel, self)
    }

    private func note(written count: Int) { state.withLock { $0.written += count } }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let receiver: ScriptedReceiver
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(_ receiver: ScriptedReceiver) { self.receiver = receiver }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                self.head = head
                body = []
            case .body(let part): body += Array(part.readableBytesView)
            case .end:
                guard let head else { return }
                var headers: [String: String] = [:]
                for (name, value) in head.headers { headers[name.lowercased()] = value }
                let message = Message(path: head.uri, headers: headers, body: body)
                let channel = context.channel
                let receiver = receiver
                let reply = receiver.receive(message)
                Task { await receiver.answer(message, reply, on: channel) }
            }
        }

        static func write(_ reply: Reply, to channel: any Channel, _ receiver: ScriptedReceiver) async throws {
            switch reply {
            case .hang: break
            case .reset:
                try await (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
                try await channel.close()
            case .status(let status, let fields):
                var headers = HTTPHeaders(fields)
                headers.add(name: "content-length", value: "0")
                let head = HTTPResponseHead(
                    version: .http1_1, status: .init(statusCode: status), headers: headers)
                channel.write(HTTPServerResponsePart.head(head), promise: nil)
                try await channel.writeAndFlush(HTTPServerResponsePart.end(nil))
            case .large(let count):
                let head = HTTPResponseHead(
                    version: .http1_1, status: .ok, headers: ["content-length": "\(count)"])
                channel.write(HTTPServerResponsePart.head(head), promise: nil)
                let part = ByteBuffer(repeating: 7, count: 64 << 10)
                for _ in 0..<count / part.readableBytes {
                    try await channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(part)))
                    receiver.note(written: part.readableBytes)
                }
                try await channel.writeAndFlush(HTTPServerResponsePart.end(nil))
            }
        }
    }
}
