import Encoding
import EventLog
import Subscriptions
import Testing

@Suite("Checkpoints, cosignatures and proofs have the forms of C2SP")
struct CheckpointTests {
    /// The key of the example in the documentation of Go's package note: PeterNeumann.
    private static let known = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    private static let knownText = """
        If you think cryptography is the answer to your problem,
        then you don't know what your problem is.

        """
    private static let knownLine =
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"

    private static let stream = StreamKey(app: "com.example.magazine", environment: .sandbox)
    private static let origin = CheckpointOrigin(installation: "test", stream: stream)
    private static let root = [UInt8](0..<32)

    /// Each copy of a text with one byte changed that is still UTF-8.
    private static func changes(of text: String) -> [String] {
        let bytes = Array(text.utf8)
        return bytes.indices.flatMap { index in
            [UInt8(1), 2, 32].compactMap { change in
                var copy = bytes
                copy[index] ^= change
                return String(validating: copy, as: UTF8.self)
            }
        }
    }

    @Test("a note that Go's package signed is verified, and any change of it refused")
    func knownNote() throws {
        let key = try #require(NoteKey(text: Self.known))
        let text = "\(Self.knownText)\n\(Self.knownLine)"
        let note = try #require(SignedNote(encoded: text))

        #expect(note.isSigned(by: key))
        #expect(note.encoded == text)
        #expect(key.text == Self.known)
        let accepted = Self.changes(of: text).filter { SignedNote(encoded: $0)?.isSigned(by: key) == true }
        #expect(accepted == [])
        #expect(Self.changes(of: Self.known).allSatisfy { NoteKey(text: $0).map { !note.isSigned(by: $0) } ?? true })
    }

    @Test(
        "what is no note is refused",
        arguments: [
            "", "text\n", "text\n\n", "text\n\n— a\n", "text\n— a eA==\n", "text\r\n\n— a b\n",
            "text\n\n- a AAAAAAA=\n",
            "text\n\n— a AAAAAAA=", "text\n\n— a+b AAAAAAA=\n", "text\n\n—  AAAAAAA=\n", "text\n\n— a AAAA\n",
            "text\n\n— a AAAAAAA=\nmore\n",
        ])
    func malformed(_ text: String) {
        #expect(SignedNote(encoded: text) == nil)
    }

    @Test("a signature of an unknown key is ignored, a bad one of a known key refuses the note")
    func otherSignatures() throws {
        let (key, other) = (HeadKey(), HeadKey())
        let known = NoteKey(name: "log", key: key.publicKey)
        let text = "text\n"
        let good = try key.sign(note: text, as: "log")
        let foreign = try other.sign(note: text, as: "log")
        let bad = try key.sign(note: "another\n", as: "log")

        #expect(SignedNote(text: text, signatures: [foreign, good]).isSigned(by: known))
        #expect(!SignedNote(text: text, signatures: [foreign]).isSigned(by: known))
        #expect(!SignedNote(text: text, signatures: [good, bad]).isSigned(by: known))
    }

    @Test("a checkpoint is three lines under the name of its stream, and is read again")
    func checkpoint() throws {
        let key = HeadKey()
        let signed = try key.sign(TreeCheckpoint(origin: Self.origin, size: 7, root: Self.root))
        let lines = signed.note.encoded.split(separator: "\n", omittingEmptySubsequences: false)

        #expect(
            lines.prefix(4) == [
                "subledger/test/com.example.magazine/sandbox", "7", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "",
            ])
        #expect(lines[4].hasPrefix("— subledger/test/com.example.magazine/sandbox "))
        let read = try #require(SignedCheckpoint(encoded: signed.note.encoded))
        #expect(read == signed)
        #expect(read.isSigned(byOneOf: [HeadKey().publicKey, key.publicKey]))
        #expect(!read.isSigned(byOneOf: [HeadKey().publicKey]))
        let accepted = Self.changes(of: signed.note.encoded).filter {
            SignedCheckpoint(encoded: $0)?.isSigned(byOneOf: [key.publicKey]) == true
        }
        #expect(accepted == [])
    }

    @Test(
        "what is no checkpoint of a stream is refused",
        arguments: [
            "subledger/test/a/sandbox\n7\n", "subledger/test/a/sandbox\n07\nR\n", "subledger/test/a/sandbox\n-7\nR\n",
            "subledger/test/a/sandbox\n+7\nR\n", "subledger/test/a/sandbox\n7\nAAAA\n",
            "subledger/test/a/sandbox\n7\nR\nmore\n", "subledger/test/a/moon\n7\nR\n", "subledger/test/a\n7\nR\n",
            "subledger/test/%61/sandbox\n7\nR\n", "subledger/test//sandbox\n7\nR\n", "other/test/a/sandbox\n7\nR\n",
            "subledger/test/%6/sandbox\n7\nR\n", "subledger/test/%FF/sandbox\n7\nR\n",
        ])
    func malformedCheckpoint(_ text: String) {
        #expect(TreeCheckpoint(text: text.replacing("R", with: Base64.text(Self.root))) == nil)
    }

    @Test(
        "an origin has no spaces, plus signs or further slashes, whatever the app's name has, and leads to the stream")
    func origins() throws {
        for app in ["a b", "a/b+c", "ä", "100%", "com.example.app", "..", "\u{1F4F0}\n"] {
            let origin = CheckpointOrigin(
                installation: "x", stream: StreamKey(app: app, environment: .localTesting))
            #expect(CheckpointOrigin(text: origin.text) == origin, "\(app)")
            #expect(origin.text.split(separator: "/").count == 4)
            #expect(origin.text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "+") })
        }
    }

    @Test("a cosignature has a time, is refused with any change, and is none of the log's signatures")
    func cosignature() throws {
        let (key, witness) = (HeadKey(), HeadKey())
        let name = "witness.example/w1"
        let signed = try key.sign(TreeCheckpoint(origin: Self.origin, size: 7, root: Self.root))
        let line = try witness.cosign(signed.note.text, as: name, at: 1_679_315_147)
        let cosigned = signed.with([line, line])
        let witnessKey = NoteKey(name: name, key: witness.publicKey, kind: .cosignature)

        #expect(cosigned.note.signatures.count == 2)
        #expect(cosigned.note.cosignatureTime(of: witnessKey) == Instant(milliseconds: 1_679_315_147_000))
        #expect(cosigned.isSigned(byOneOf: [key.publicKey]))
        #expect(signed.note.cosignatureTime(of: witnessKey) == nil)
        #expect(cosigned.note.cosignatureTime(of: NoteKey(name: name, key: witness.publicKey)) == nil)
        #expect(NoteKey(text: witnessKey.text)?.kind == .cosignature)
        let accepted = Self.changes(of: cosigned.note.encoded).filter {
            SignedNote(encoded: $0)?.cosignatureTime(of: witnessKey) != nil
                && SignedCheckpoint(encoded: $0)?.isSigned(byOneOf: [key.publicKey]) == true
        }
        #expect(accepted == [])
    }

    @Test("a proof in its text leads from the entry to the checkpoint, and no changed text does")
    func proof() throws {
        let key = HeadKey()
        let digests = (0..<5).map { [UInt8](repeating: UInt8($0), count: 32) }
        let leaves = digests.map { MerkleTree.leaf($0) }
        let hash: (MerkleTree.Node) -> [UInt8] = { node in
            let first = Int(node.index) << node.level
            return MerkleTree.root(of: leaves[first..<first + 1 << node.level])
        }
        let checkpoint = try key.sign(
            TreeCheckpoint(origin: Self.origin, size: 5, root: MerkleTree.root(size: 5, hash)))
        for position in Int64(1)...5 {
            let proof = TreeProof(
                position: position, hashes: MerkleTree.inclusion(of: position - 1, size: 5, hash),
                checkpoint: checkpoint)
            let text = proof.encoded
            let digest = digests[Int(position) - 1]

            #expect(text.hasPrefix("c2sp.org/tlog-proof@v1\nindex \(position - 1)\n"))
            let read = try #require(TreeProof(encoded: text))
            #expect(read == proof && read.proves(digest))
            #expect(!read.proves(digests[Int(position) % 5]))
            let accepted = Self.changes(of: text).filter { changed in
                guard let read = TreeProof(encoded: changed) else { return false }
                return read.proves(digest) && read.checkpoint.isSigned(byOneOf: [key.publicKey])
            }
            #expect(accepted == [])
        }
    }

    @Test("a request to a witness is the old size, the hashes, and the checkpoint")
    func request() throws {
        let checkpoint = try HeadKey().sign(TreeCheckpoint(origin: Self.origin, size: 7, root: Self.root))
        let request = WitnessRequest(oldSize: 3, proof: [Self.root], checkpoint: checkpoint)
        let first = WitnessRequest(oldSize: 0, proof: [], checkpoint: checkpoint)

        #expect(request.encoded == "old 3\n\(Base64.text(Self.root))\n\n\(checkpoint.note.encoded)")
        #expect(first.encoded == "old 0\n\n\(checkpoint.note.encoded)")
    }
}
