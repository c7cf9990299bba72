import Encoding
import Postgres
import Subscriptions

/// A stream with the state of its tree.
package struct TreeStream: Sendable, Hashable {
    package let id: Int32
    package let key: StreamKey
    let createdAt: Timestamptz
    /// The last position of the log.
    package let last: Int64
    /// The number of events in full tiles; nil if no tile was made.
    let size: Int64?
    /// The size of the last signed checkpoint; nil without one.
    package let signed: Int64?
    /// Whether the chain has the value at the end of the tiles that it had when they were made.
    package let agrees: Bool

    /// The number of events that are in no full tile.
    package var waiting: Int64 { max(0, last - (size ?? 0)) }

    var start: LogChain { LogChain(startOf: key, createdAt: createdAt) }
}

/// The trees in the database. All statements are those of role subledger_projector.
package struct TreeStore: Sendable {
    let connection: PostgresConnection

    package init(connection: PostgresConnection) {
        self.connection = connection
    }

    /// The log of the same connection.
    package var audit: LogAudit { audit(with: .none) }

    package func audit(with archive: BodyArchive) -> LogAudit { LogAudit(connection: connection, archive: archive) }

    /// All streams, in order of app and environment.
    package func streams() async throws(PostgresError) -> [TreeStream] {
        var streams: [TreeStream] = []
        for row in try await rows(Statements.streams) {
            guard let environment = Environment(rawValue: try row.value(at: 2)) else { continue }
            let key = StreamKey(app: try row.value(at: 1), environment: environment)
            let createdAt: Timestamptz = try row.value(at: 3)
            let (size, chain) = (try row.optional(Int64.self, at: 5), try row.optional([UInt8].self, at: 6))
            let there: [UInt8]? =
                try size == 0 ? LogChain(startOf: key, createdAt: createdAt).value : row.optional(at: 7)
            streams.append(
                TreeStream(
                    id: try row.value(at: 0), key: key, createdAt: createdAt, last: try row.value(at: 4), size: size,
                    signed: try row.optional(at: 8), agrees: size == nil || there == chain))
        }
        return streams
    }

    /// The end of the full tiles, as a place in the hash chain. Nil if no tile was made.
    func end(of stream: Int32) async throws(PostgresError) -> LogChain? {
        try await rows(Statements.end, [Parameter(stream)]).first.map(Self.chain)
    }

    /// The same, locked until the end of the transaction, so that one process works on a stream's tree.
    ///
    /// - Parameter waits: Whether to wait for another process; otherwise nil is returned then.
    func lockedEnd(of stream: Int32, waits: Bool) async throws(PostgresError) -> LogChain? {
        try await rows(waits ? Statements.lock : Statements.tryLock, [Parameter(stream)]).first.map(Self.chain)
    }

    private static func chain(_ row: Row) throws(PostgresError) -> LogChain {
        LogChain(position: try row.value(at: 0), value: try row.value(at: 1))
    }

    /// Makes the row that ``lockedEnd(of:waits:)`` locks.
    func begin(_ stream: TreeStream) async throws(PostgresError) {
        _ = try await rows(Statements.begin, [Parameter(stream.id), Parameter(stream.start.value)])
    }

    /// Moves the end of the tiles.
    func setEnd(of stream: Int32, from old: Int64, to end: LogChain) async throws(PostgresError) -> Bool {
        try await rows(
            Statements.setEnd, [Parameter(stream), Parameter(old), Parameter(end.position), Parameter(end.value)]
        ).count == 1
    }

    /// - Parameter tiles: Each with all its hashes.
    func insert(_ tiles: [(tile: TreeTile, hashes: [[UInt8]])], of stream: Int32) async throws(PostgresError) {
        _ = try await rows(
            Statements.insert,
            [
                Parameter(stream), .array(tiles.map { Int32($0.tile.level) }), .array(tiles.map { $0.tile.number }),
                .array(tiles.map { MerkleTree.root(of: $0.hashes) }), .array(tiles.map { Array($0.hashes.joined()) }),
            ])
    }

    /// The full tiles among these.
    func tiles(_ tiles: [TreeTile], of stream: Int32) async throws(PostgresError) -> [TreeTile: [[UInt8]]] {
        var found: [TreeTile: [[UInt8]]] = [:]
        for row in try await rows(
            Statements.tiles,
            [Parameter(stream), .array(tiles.map { Int32($0.level) }), .array(tiles.map(\.number))])
        {
            let level: Int32 = try row.value(at: 0)
            let tile = TreeTile(level: Int(level), number: try row.value(at: 1))
            let bytes: [UInt8] = try row.value(at: 2)
            found[tile] = stride(from: 0, to: bytes.count, by: 32).map {
                Array(bytes[$0..<min($0 + 32, bytes.count)])
            }
        }
        return found
    }

    /// The roots of a run of tiles of a level.
    func roots(
        level: Int, _ numbers: Range<Int64>, of stream: Int32
    ) async throws(PostgresError) -> [[UInt8]] {
        try await rows(
            Statements.roots,
            [
                Parameter(stream), Parameter(Int32(level)), Parameter(numbers.lowerBound),
                Parameter(numbers.upperBound),
            ]
        ).map { (row) throws(PostgresError) -> [UInt8] in try row.value(at: 0) }
    }

    /// The events after a place in the hash chain, followed link by link.
    ///
    /// - Returns: The hashes of their leaves, and the chain at the last of them.
    func leaves(
        of stream: Int32, after start: LogChain, until last: Int64
    ) async throws(TreeError) -> (hashes: [[UInt8]], end: LogChain) {
        let links = try await TreeError.inDatabase { () async throws(PostgresError) in
            try await audit.links(of: stream, after: start.position, until: last)
        }
        var (hashes, chain): ([[UInt8]], LogChain) = ([], start)
        hashes.reserveCapacity(links.count)
        for link in links {
            chain.append(link.digest)
            guard chain.position == link.position, chain.value == link.chain else {
                throw .problem(.chain(position: chain.position))
            }
            hashes.append(MerkleTree.leaf(link.digest))
        }
        guard chain.position == last else { throw .problem(.chain(position: chain.position + 1)) }
        return (hashes, chain)
    }

    /// The last position of a stream's log.
    func last(of stream: Int32) async throws(PostgresError) -> Int64 {
        try await rows(Statements.last, [Parameter(stream)])[0].value(at: 0)
    }

    private func rows(_ statement: Statement, _ parameters: [Parameter] = []) async throws(PostgresError) -> [Row] {
        Array(try await connection.query(statement, parameters, deadline: .now + Limits.auditWaitMax))
    }

    // MARK: Checkpoints

    /// The last checkpoint that was signed in this database under an origin; nil if there is none.
    func checkpoint(of stream: Int32, origin: CheckpointOrigin) async throws(PostgresError) -> SignedCheckpoint? {
        try await notes(Statements.checkpoint, [Parameter(stream), Parameter(origin.text)]).first
    }

    /// The last signed checkpoint of a stream and those that witnesses cosigned last, under any origin.
    func checkpoints(of stream: Int32) async throws(PostgresError) -> [SignedCheckpoint] {
        try await notes(Statements.checkpoints, [Parameter(stream)])
    }

    /// Keeps a checkpoint as the last one that was signed.
    func keep(_ signed: SignedCheckpoint, of stream: Int32, at time: Instant) async throws(PostgresError) {
        let checkpoint = signed.checkpoint
        _ = try await rows(
            Statements.keepCheckpoint,
            [
                Parameter(stream), Parameter(checkpoint.origin.text), Parameter(checkpoint.size),
                Parameter(checkpoint.root), Parameter(signed.note.encoded), Parameter(time),
            ])
    }

    /// The last checkpoints under an origin that witnesses cosigned, the largest first.
    package func cosigned(
        of stream: Int32, origin: CheckpointOrigin
    ) async throws(PostgresError) -> [SignedCheckpoint] {
        try await notes(Statements.cosigned, [Parameter(stream), Parameter(origin.text)])
    }

    private func notes(
        _ statement: Statement, _ parameters: [Parameter]
    ) async throws(PostgresError) -> [SignedCheckpoint] {
        try await rows(statement, parameters).map { (row) throws(PostgresError) -> SignedCheckpoint in
            guard let checkpoint = SignedCheckpoint(encoded: try row.value(at: 0)) else {
                throw PostgresError(.decoding)
            }
            return checkpoint
        }
    }

    /// Keeps a cosigned checkpoint as the last one of its witness.
    ///
    /// - Parameters:
    ///   - witness: The name of its key.
    ///   - time: When it cosigned, by its clock.
    package func keep(
        _ cosigned: SignedCheckpoint, of stream: Int32, by witness: String, at time: Instant
    ) async throws(PostgresError) {
        let checkpoint = cosigned.checkpoint
        _ = try await rows(
            Statements.keepCosignature,
            [
                Parameter(stream), Parameter(witness), Parameter(checkpoint.origin.text), Parameter(checkpoint.size),
                Parameter(cosigned.note.encoded), Parameter(time),
            ])
    }
}
