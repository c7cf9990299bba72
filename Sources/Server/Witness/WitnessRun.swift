import Encoding
import EventLog
import Postgres

/// Has a witness cosign the last checkpoint of a stream, and keeps the cosignature.
package struct WitnessRun: Sendable {
    private let client: WitnessClient
    private let witness: NoteKey
    private let signer: CheckpointSigner
    private let store: TreeStore

    package init(client: WitnessClient, witness: NoteKey, signer: CheckpointSigner, store: TreeStore) {
        self.client = client
        self.witness = witness
        self.signer = signer
        self.store = store
    }

    /// Signs a checkpoint of all events of a stream and posts it, with the proof that it extends the one that the witness
    /// knows.
    ///
    /// - Returns: The checkpoint with the cosignature, and its time. Nil if the stream has no events.
    /// - Throws: ``TreeError``, ``WitnessProblem``.
    package func cosign(_ stream: TreeStream) async throws -> (checkpoint: SignedCheckpoint, time: Instant)? {
        guard let signed = try await signer.buildAndSign(stream, in: store) else { return nil }
        let known = try await store.cosigned(of: stream.id, origin: signed.checkpoint.origin)
            .first { $0.note.cosignatureTime(of: witness) != nil }
        var oldSize = known?.checkpoint.size ?? 0
        // The witness says what it knows if that is not what is known here.
        for _ in 0..<2 {
            guard oldSize <= signed.checkpoint.size else {
                throw WitnessProblem.larger(size: oldSize, log: signed.checkpoint.size)
            }
            let proof = try await StreamTree(store, of: stream.id)
                .consistency(from: oldSize, to: signed.checkpoint.size)
            let request = WitnessRequest(oldSize: oldSize, proof: proof, checkpoint: signed)
            switch try await client.post(request) {
            case .knows(let size):
                // The same size with another root.
                guard size != oldSize else { throw WitnessProblem.inconsistent(size: size) }
                oldSize = size
            case .cosigned(let signatures):
                let cosigned = signed.with(signatures.filter { witness.isOf($0) })
                guard let time = cosigned.note.cosignatureTime(of: witness) else {
                    throw WitnessProblem.notCosigned(by: witness.name)
                }
                try await store.keep(cosigned, of: stream.id, by: witness.name, at: time)
                return (cosigned, time)
            }
        }
        throw WitnessProblem.inconsistent(size: oldSize)
    }
}

extension Settings {
    /// The key of a witness, from its text.
    package static func witnessKey(_ text: String) throws(SettingError) -> NoteKey {
        guard let key = NoteKey(text: text), key.kind == .cosignature else {
            throw SettingError(
                description: "witness key \"\(text)\": expected name+id+key, with the key of a witness (type 4)")
        }
        return key
    }
}
