import NIOCore

/// Allocates a buffer for each read, which is freed when its bytes are consumed.
///
/// NIO's default keeps several buffers for each connection, as large as the largest notification that ever arrived on
/// it: a hundred kilobytes for each of thousands of senders that wait for their commit.
struct ReceiveBuffers: RecvByteBufferAllocator {
    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
        allocator.buffer(capacity: Limits.readBytesMax)
    }

    /// The size is fixed, so nothing is recorded.
    mutating func record(actualReadBytes: Int) -> Bool { false }
}
