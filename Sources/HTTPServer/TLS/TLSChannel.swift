import HummingbirdCore
import Logging
import NIOCore
import NIOSSL

/// Adds TLS to a channel, with the certificate that is current when a connection is accepted. The framework's own
/// channel keeps the certificate that it was created with.
struct TLSChannel<Base: ServerChildChannel>: ServerChildChannel {
    typealias Value = Base.Value

    let base: Base
    let identity: TLSIdentity

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: identity.context))
        }.flatMap {
            base.setup(channel: channel, logger: logger)
        }
    }

    func handle(value: Value, logger: Logger) async {
        await base.handle(value: value, logger: logger)
    }
}

extension HTTPServerBuilder {
    /// HTTP/1.1, with TLS if an identity is given.
    static func http1(idleTimeout: TimeAmount, identity: TLSIdentity?) -> HTTPServerBuilder {
        let configuration = HTTP1Channel.Configuration(
            additionalChannelHandlers: [ReceiveBufferHandler()], idleTimeout: idleTimeout)
        guard let identity else { return .http1(configuration: configuration) }
        return HTTPServerBuilder { responder in
            TLSChannel(
                base: HTTP1Channel(responder: responder, configuration: configuration), identity: identity)
        }
    }
}
