import NIOCore

/// A buffer for each read, which goes when its bytes are taken.
///
/// The usual ones are kept by their connection, several of them and as large as the largest notification that ever came
/// over it: a hundred kilobytes for each of thousands of senders that wait for their commit.
struct ReceiveBuffers: RecvByteBufferAllocator {
    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
        allocator.buffer(capacity: Limits.readBytesMax)
    }

    /// A fixed size needs no record.
    mutating func record(actualReadBytes: Int) -> Bool { false }
}

/// Gives a connection its ``ReceiveBuffers`` once it is there.
final class ReceiveBufferHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    func handlerAdded(context: ChannelHandlerContext) {
        try? context.channel.syncOptions?.setOption(.recvAllocator, value: ReceiveBuffers())
    }
}
