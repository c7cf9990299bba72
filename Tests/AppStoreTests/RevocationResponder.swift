import AppStore
import Synchronization
import TestSupport

/// The responders of a chain's issuers, in this process. They answer "good" unless a test changes it.
final class RevocationResponder: OCSPTransport {
    typealias Behaviour = @Sendable (_ request: [UInt8], _ issuer: RevocationChain.Issuer) async throws -> [UInt8]

    struct Unreachable: Error {}

    private struct State {
        var behaviours: [String: Behaviour] = [:]
        var asked: [String] = []
        var waiting = 0
        var waitingMost = 0
    }

    private let chain: RevocationChain
    private let state = Mutex(State())

    init(_ chain: RevocationChain) {
        self.chain = chain
    }

    /// The requested addresses, in order.
    var asked: [String] { state.withLock { $0.asked } }
    /// The number of requests without a response now, and its maximum.
    var waiting: Int { state.withLock { $0.waiting } }
    var waitingMost: Int { state.withLock { $0.waitingMost } }

    func at(_ address: String, _ behaviour: @escaping Behaviour) {
        state.withLock { $0.behaviours[address] = behaviour }
    }

    func at(_ address: String, _ answer: RevocationAnswer) {
        at(address) { request, issuer in try answer.der(to: request, by: issuer) }
    }

    /// Both issuers.
    func everywhere(_ behaviour: @escaping Behaviour) {
        at(RevocationChain.leafResponder, behaviour)
        at(RevocationChain.intermediateResponder, behaviour)
    }

    func answer(to request: [UInt8], at address: String, bytesMax: Int) async throws -> [UInt8] {
        let behaviour = state.withLock { state -> Behaviour? in
            state.asked.append(address)
            state.waiting += 1
            state.waitingMost = max(state.waitingMost, state.waiting)
            return state.behaviours[address]
        }
        defer { state.withLock { $0.waiting -= 1 } }
        let issuer = address == RevocationChain.leafResponder ? chain.intermediate : chain.root
        return try await behaviour?(request, issuer) ?? RevocationAnswer().der(to: request, by: issuer)
    }
}

/// Blocks every caller, cancelled ones too, until it is opened.
final class Gate: Sendable {
    private let state = Mutex((isOpen: false, waiting: [CheckedContinuation<Void, Never>]()))

    func pass() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }
}
