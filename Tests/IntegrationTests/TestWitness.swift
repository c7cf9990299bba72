import Encoding
import EventLog
import Hummingbird
import Logging
import Synchronization

/// A witness on a free port of this machine, by the text of C2SP tlog-witness v1.0.0.
final class TestWitness: Sendable {
    static let name = "witness.example/w1"
    /// When it cosigns everything.
    static let seconds: Int64 = 1_800_000_000
    static let time = Instant(milliseconds: seconds * 1000) ?? .earliest

    private struct State {
        var cosigned: [String: TreeCheckpoint] = [:]
        var requests: [String] = []
        /// Answered once instead of what is right.
        var answer: (status: Int, body: String)?
    }

    private let key = HeadKey()
    /// The key of the log.
    private let log: HeadPublicKey
    private let state = Mutex(State())
    let port: Int

    /// The form in which its key is given to others.
    var verifierKey: String { NoteKey(name: Self.name, key: key.publicKey, kind: .cosignature).text }
    var url: String { "http://127.0.0.1:\(port)/prefix" }
    /// The bodies of all requests.
    var requests: [String] { state.withLock { $0.requests } }

    func answerOnce(_ status: Int, _ body: String) {
        state.withLock { $0.answer = (status, body) }
    }

    /// Forgets what it cosigned, as another witness of the same name.
    func forget() {
        state.withLock { $0.cosigned = [:] }
    }

    private init(log: HeadPublicKey, port: Int) {
        self.log = log
        self.port = port
    }

    /// Runs the test with a witness that knows a key.
    static func with(log: HeadPublicKey, _ test: (TestWitness) async throws -> Void) async throws {
        let (ports, isListening) = AsyncStream<Int>.makeStream()
        let made = Mutex<TestWitness?>(nil)
        let router = Router()
        router.post("prefix/add-checkpoint") { request, _ in
            let body = String(buffer: try await request.body.collect(upTo: 1 << 20))
            guard let witness = made.withLock({ $0 }) else { throw HTTPError(.serviceUnavailable) }
            let (status, text) = try witness.answer(to: body)
            return Response(
                status: .init(code: status),
                headers: [.contentType: status == 409 ? "text/x.tlog.size" : "text/plain"],
                body: .init(byteBuffer: ByteBuffer(string: text)))
        }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { isListening.yield($0.localAddress?.port ?? 0) }, logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await application.run() }
            var iterator = ports.makeAsyncIterator()
            let witness = TestWitness(log: log, port: await iterator.next() ?? 0)
            made.withLock { $0 = witness }
            defer { group.cancelAll() }
            try await test(witness)
        }
    }

    private func answer(to body: String) throws -> (Int, String) {
        try state.withLock { state in
            state.requests.append(body)
            if let answer = state.answer {
                state.answer = nil
                return answer
            }
            guard let end = body.firstRange(of: "\n\n"),
                let checkpoint = SignedCheckpoint(encoded: String(body[end.upperBound...]))
            else { return (400, "") }
            let lines = body[..<end.lowerBound].split(separator: "\n")
            guard let first = lines.first, first.hasPrefix("old "), let old = Int64(first.dropFirst(4)) else {
                return (400, "")
            }
            let proof = lines.dropFirst().compactMap { Base64.decode(Array($0.utf8)[...], .standard) }
            guard proof.count == lines.count - 1, proof.count <= 63 else { return (400, "") }
            guard checkpoint.isSigned(byOneOf: [log]) else { return (403, "") }
            let new = checkpoint.checkpoint
            guard old <= new.size else { return (400, "") }
            let known = state.cosigned[new.origin.text]
            guard old == known?.size ?? 0 else { return (409, "\(known?.size ?? 0)\n") }
            let isConsistent = MerkleTree.isConsistent(
                known?.root ?? MerkleTree.emptyRoot, size: old, with: new.root, size: new.size, proof: proof)
            if old == new.size, known?.root != new.root { return (409, "\(old)\n") }
            guard isConsistent else { return (422, "") }
            state.cosigned[new.origin.text] = new
            let signature = try key.cosign(checkpoint.note.text, as: Self.name, at: Self.seconds)
            let line = SignedNote(text: "\n", signatures: [signature]).encoded.dropFirst(2)
            return (200, String(line))
        }
    }
}
