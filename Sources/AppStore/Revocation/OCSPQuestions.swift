import Synchronization
import X509

/// Sends the requests of one check within its limits and remembers unresponsive addresses.
final class OCSPQuestions: Sendable {
    /// The effect of a missing response on X509's policy, which does not report it separately.
    enum Silence {
        /// The certificate fails the policy.
        case fails
        /// The certificate passes the policy.
        case passes
    }

    private let transport: any OCSPTransport
    private let limits: RevocationLimits
    private let silent = Mutex<Set<String>>([])
    /// As received, oldest first. Two for each certificate at most.
    private let received = Mutex<[[UInt8]]>([])

    init(transport: any OCSPTransport, limits: RevocationLimits) {
        self.transport = transport
        self.limits = limits
    }

    func requester(_ silence: Silence) -> some OCSPRequester {
        Requester(questions: self, silence: silence)
    }

    /// Returns nil if there is no usable response. An address that failed is not tried again within the check.
    private func answer(to request: [UInt8], at address: String) async -> [UInt8]? {
        guard !silent.withLock({ $0.contains(address) }) else { return nil }
        let answer = await withTimeout(limits.answerWaitMax) { [transport, limits] in
            try? await transport.answer(to: request, at: address, bytesMax: limits.answerBytesMax)
        }
        if let answer = answer ?? nil, answer.count <= limits.answerBytesMax {
            received.withLock { $0.append(answer) }
            return answer
        }
        _ = silent.withLock { $0.insert(address) }
        return nil
    }

    /// The last signed response about each certificate that is good or revoked.
    func responses(about chain: CertificateChain) async -> [VerifiedOCSPResponse] {
        let received = received.withLock { $0 }
        var responses: [VerifiedOCSPResponse] = []
        for part in CertificateChain.Part.allCases {
            for bytes in received.reversed() {
                guard let response = try? await VerifiedOCSPResponse(verifying: bytes, about: part, of: chain),
                    response.status != .unknown
                else { continue }
                responses.append(response)
                break
            }
        }
        return responses
    }

    private struct Requester: OCSPRequester {
        let questions: OCSPQuestions
        let silence: Silence

        func query(request: [UInt8], uri: String) async -> OCSPRequesterQueryResult {
            if let answer = await questions.answer(to: request, at: uri) { return .response(answer) }
            return switch silence {
            case .fails: .terminalError(NoAnswer())
            case .passes: .nonTerminalError(NoAnswer())
            }
        }
    }

    private struct NoAnswer: Error {}
}
