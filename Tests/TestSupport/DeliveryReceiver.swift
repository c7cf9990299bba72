import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A receiver of deliveries at a port of this machine. It can be killed, with all its connections, and come back there.
package final class DeliveryReceiver: Sendable {
    /// A request as it arrived.
    package struct Request: Sendable {
        package let path: String
        package let headers: HTTPHeaders
        package let body: ByteBuffer

        package var id: String { headers.first(name: "webhook-id") ?? "" }

        /// The number of the change, or the position of the event.
        package var number: Int { id.split(separator: "_").dropFirst(2).first.flatMap { Int($0) } ?? 0 }

        /// The subscription that a change is about.
        package var subject: String {
            let key = Data(#""subject":""#.utf8)
            let bytes = Data(body.readableBytesView)
            guard let found = bytes.range(of: key),
                let end = bytes[found.upperBound...].firstIndex(of: UInt8(ascii: "\""))
            else { return "" }
            return String(decoding: bytes[found.upperBound..<end], as: UTF8.self)
        }
    }

    package enum Reply: Sendable {
        case status(Int)
        /// The connection is reset instead of an answer.
        case reset
    }

    private struct State {
        var listener: (any Channel)?
        var connections: [ObjectIdentifier: any Channel] = [:]
        var port = 0
        var isUp = false
    }

    private let answer: @Sendable (Request) -> Reply
    private let state = Mutex(State())

    /// - Parameter answer: Is called on the thread of a connection, so it must be quick.
    package init(answer: @escaping @Sendable (Request) -> Reply) {
        self.answer = answer
    }

    package var port: Int { state.withLock(\.port) }

    /// Listens on a free port, or again on the port of before.
    package func start() async throws {
        // Not one that the system may give to a connection while the receiver is down.
        let port = if self.port == 0 { try FreePort.find() } else { self.port }
        let listener = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [self] channel in
                note(channel)
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(answer))
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        state.withLock { state in
            state.listener = listener
            state.port = port
            state.isUp = true
        }
    }

    /// Stops listening and resets all connections, as the system does when a process is killed.
    package func kill() async {
        let (listener, connections) = state.withLock { state in
            defer { (state.listener, state.connections, state.isUp) = (nil, [:], false) }
            return (state.listener, Array(state.connections.values))
        }
        try? await listener?.close()
        for connection in connections { await Self.reset(connection) }
    }

    private func note(_ channel: any Channel) {
        let key = ObjectIdentifier(channel)
        let isLate = state.withLock { state in
            state.connections[key] = channel
            return !state.isUp && state.port != 0
        }
        channel.closeFuture.whenComplete { [self] _ in _ = state.withLock { $0.connections.removeValue(forKey: key) } }
        // Accepted while the listener was closed.
        if isLate { Task { await Self.reset(channel) } }
    }

    fileprivate static func reset(_ channel: any Channel) async {
        try? await (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        try? await channel.close()
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let answer: @Sendable (Request) -> Reply
        private var head: HTTPRequestHead?
        private var body = ByteBuffer()

        init(_ answer: @escaping @Sendable (Request) -> Reply) { self.answer = answer }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                self.head = head
                body = ByteBuffer()
            case .body(var part): body.writeBuffer(&part)
            case .end:
                guard let head else { return }
                switch answer(Request(path: head.uri, headers: head.headers, body: body)) {
                case .status(let status):
                    let head = HTTPResponseHead(
                        version: .http1_1, status: .init(statusCode: status), headers: ["content-length": "0"])
                    context.write(wrapOutboundOut(.head(head)), promise: nil)
                    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
                case .reset:
                    let channel = context.channel
                    Task { await DeliveryReceiver.reset(channel) }
                }
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}

/// What has arrived at endpoints. Finds messages that come out of order within a subscription, and attempts that differ.
package final class DeliveryLedger: Sendable {
    private struct Message: Hashable {
        let path: String
        let number: Int
    }

    private struct Line: Hashable {
        let path: String
        let subject: String
    }

    private struct State {
        var ids: [Message: String] = [:]
        var last: [Line: Int] = [:]
        var counts: [String: Int] = [:]
        var attempts = 0
        var problems: [String] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Notes an arrival at a path.
    ///
    /// - Returns: Whether the message had not arrived before.
    @discardableResult
    package func note(_ request: DeliveryReceiver.Request, line subject: String? = nil) -> Bool {
        let message = Message(path: request.path, number: request.number)
        let line = Line(path: request.path, subject: subject ?? request.subject)
        return state.withLock { state in
            state.attempts += 1
            if let id = state.ids[message] {
                // A repetition is no new message.
                if id != request.id { state.problems.append("number \(message.number): ids \(id) and \(request.id)") }
                return false
            }
            state.ids[message] = request.id
            state.counts[request.path, default: 0] += 1
            if let last = state.last[line], last > message.number {
                state.problems.append("\(line.subject): \(message.number) after \(last)")
            }
            state.last[line] = message.number
            return true
        }
    }

    /// How many different messages have arrived at a path.
    package func count(_ path: String) -> Int { state.withLock { $0.counts[path] ?? 0 } }

    /// The numbers of the messages that have arrived at a path.
    package func numbers(_ path: String) -> Set<Int> {
        state.withLock { Set($0.ids.keys.filter { $0.path == path }.map(\.number)) }
    }

    /// All requests, repetitions included.
    package var attempts: Int { state.withLock(\.attempts) }

    package var problems: [String] { state.withLock(\.problems) }
}
