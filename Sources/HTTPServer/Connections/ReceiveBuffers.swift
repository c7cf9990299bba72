import NIOCore

/// A buffer for each read, freed when its bytes are consumed.
///
/// NIO's default keeps several buffers for each connection, as large as the largest notification that ever came over
/// it: a hundred kilobytes for each of thousands of senders that wait for their commit.
struct ReceiveBuffers: RecvByteBufferAllocator {
    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
        allocator.buffer(capacity: Limits.readBytesMax)
    }

    /// A fixed size needs no record.
    mutating func record(actualReadBytes: Int) -> Bool { false }
}
