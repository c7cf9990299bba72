import Encoding
import Postgres
import Subscriptions

/// Signs checkpoints of a log, each only if it is proven to extend the last one that was signed.
///
/// What was signed last is known from two places: the database, and a record beside the key. A database that was restored
/// from a backup has forgotten the newest checkpoints, and the record shows that.
package struct CheckpointSigner: Sendable {
    let key: HeadKey
    let installation: String
    let record: CheckpointRecord
    private let now: @Sendable () -> Instant

    /// - Parameters:
    ///   - installation: The part of the origins that tells this log from all others.
    ///   - record: On this machine, of what was signed with the key.
    package init(
        key: HeadKey, installation: String, record: CheckpointRecord, now: @escaping @Sendable () -> Instant
    ) {
        self.key = key
        self.installation = installation
        self.record = record
        self.now = now
    }

    package func origin(of stream: StreamKey) -> CheckpointOrigin {
        CheckpointOrigin(installation: installation, stream: stream)
    }

    /// The name and public key by which others verify the checkpoints of a stream.
    package func verifierKey(of stream: StreamKey) -> NoteKey {
        NoteKey(name: origin(of: stream).text, key: key.publicKey)
    }

    /// Signs a checkpoint of all events of a stream, after its tiles were made.
    ///
    /// Durable when this returns, in the database and in the record. Safe to repeat: a log that has not grown has one
    /// checkpoint.
    ///
    /// - Returns: Nil if the stream has no events.
    /// - Throws: ``TreeProblem`` if the checkpoint is not proven to extend the last ones; nothing is signed then.
    package func sign(_ stream: TreeStream, in store: TreeStore) async throws(TreeError) -> SignedCheckpoint? {
        let origin = origin(of: stream.key)
        return try await store.transaction { () async throws(TreeError) -> SignedCheckpoint? in
            let tiled = try await TreeError.inDatabase { () async throws(PostgresError) in
                try await store.lockedEnd(of: stream.id, waits: true)
            }
            guard let tiled else { return nil }
            let tree = try await StreamTree(store, of: stream.id, from: tiled)
            let kept = try await TreeError.inDatabase { () async throws(PostgresError) in
                try await store.checkpoint(of: stream.id, origin: origin)
            }
            let recorded = try record.last(of: origin)
            let root = try await tree.root(size: tree.size)
            for earlier in [kept, recorded].compactMap(\.self) {
                try await tree.extend(earlier.checkpoint, to: tree.size, root: root)
            }
            if let kept, kept.checkpoint.size == tree.size, kept.isSigned(byOneOf: [key.publicKey]),
                recorded?.checkpoint == kept.checkpoint
            {
                return kept
            }
            guard tree.size > 0 else { return nil }
            guard let signed = try? key.sign(TreeCheckpoint(origin: origin, size: tree.size, root: root)) else {
                throw .problem(.record(record.folder))
            }
            // Before the database: a crash between them leaves a record of a checkpoint that nobody has seen, which the
            // log extends.
            try record.keep(signed)
            try await TreeError.inDatabase { () async throws(PostgresError) in
                try await store.keep(signed, of: stream.id, at: now())
            }
            return signed
        }
    }

    /// A signed checkpoint that covers a position: the largest that a witness cosigned, else the last one, else a new one.
    ///
    /// - Returns: Nil if the stream has no such position.
    package func checkpoint(
        of stream: TreeStream, covering position: Int64, in store: TreeStore
    ) async throws(TreeError) -> SignedCheckpoint? {
        guard position <= stream.last else { return nil }
        let origin = origin(of: stream.key)
        let known = try await TreeError.inDatabase { () async throws(PostgresError) -> [SignedCheckpoint] in
            let kept = try await store.checkpoint(of: stream.id, origin: origin)
            return try await store.cosigned(of: stream.id, origin: origin) + [kept].compactMap(\.self)
        }
        let accepted = known.first {
            position...stream.last ~= $0.checkpoint.size && $0.isSigned(byOneOf: [key.publicKey])
        }
        if let accepted { return accepted }
        return try await buildAndSign(stream, in: store)
    }

    /// Makes the missing tiles of a stream, and then signs, waiting for other processes.
    package func buildAndSign(_ stream: TreeStream, in store: TreeStore) async throws(TreeError) -> SignedCheckpoint? {
        _ = try await TreeBuilder(store).build(stream, waits: true)
        return try await sign(stream, in: store)
    }
}
