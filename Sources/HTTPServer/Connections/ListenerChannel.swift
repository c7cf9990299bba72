import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import NIOSSL

/// The pipeline of a connection: TLS if there is an identity, HTTP/1.1, and the limits of the ``ConnectionTable``.
struct ListenerChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    /// Nil for plain HTTP. A connection uses the current certificate; Hummingbird's own TLS channel keeps the one that
    /// it started with.
    let identity: TLSIdentity?
    let connections: ConnectionTable

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            try? channel.syncOptions?.setOption(.recvAllocator, value: ReceiveBuffers())
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(SocketEnd())
            if let identity { try pipeline.addHandler(NIOSSLServerHandler(context: identity.context)) }
        }.flatMap {
            base.setup(channel: channel, logger: logger)
        }.flatMapThrowing { value in
            // Kept until the channel is closed: a listener that is stopping drops the connections that it has just
            // accepted, and a NIOAsyncChannel that is released while it is open ends the process.
            channel.closeFuture.whenComplete { _ in withExtendedLifetime(value) {} }
            let pipeline = channel.pipeline.syncOperations
            // The handler needs the HTTP version, which the codec removes.
            let codec = try pipeline.handler(type: HTTP1ToHTTPServerCodec.self)
            try pipeline.addHandler(
                ConnectionHandler(connection: connections.open(channel)), position: .before(codec))
            return value
        }
    }

    func handle(value: Value, logger: Logger) async {
        await CurrentConnection.$channel.withValue(value.channel) {
            await base.handle(value: value, logger: logger)
        }
    }
}

/// The connection whose request the current task handles.
enum CurrentConnection {
    /// Nil outside of a listener.
    @TaskLocal static var channel: (any Channel)?
}

/// First in the pipeline: closes the socket without the TLS shutdown, which would wait for the peer.
final class SocketEnd: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = ByteBuffer

    struct Close: Sendable {}

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        if event is Close {
            context.close(promise: promise)
        } else {
            context.triggerUserOutboundEvent(event, promise: promise)
        }
    }
}

extension HTTPServerBuilder {
    static func limited(identity: TLSIdentity?, connections: ConnectionTable) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            ListenerChannel(
                base: HTTP1Channel(responder: responder, configuration: .init()), identity: identity,
                connections: connections)
        }
    }
}
