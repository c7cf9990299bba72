@_spi(FixedExpiryValidationTime) import X509

/// Checks the revocation status of a chain once.
///
/// X509's policy returns only "passes" or "fails", and each is ambiguous: a certificate without a responder passes, as
/// does a missing response in soft mode; a broken chain and an unusable response both fail. So the policy runs twice,
/// each time configured so that one of its outcomes has a single cause:
///
/// 1. Hard mode, a missing response fails: a pass means that every certificate is good.
/// 2. Soft mode, a missing response passes: a failure means that a signed response says "revoked".
///
/// The second run sends new requests, since each request has its own nonce, which the response may have to repeat.
struct RevocationCheck: Sendable {
    let transport: any OCSPTransport
    let limits: RevocationLimits

    /// Certificates must be valid at the chain's validation time, responses at the present time.
    ///
    /// Returns `unknown` after ``RevocationLimits/checkWaitMax`` at the latest, and immediately when cancelled.
    ///
    /// - Returns: The verdict, and the signed responses that it comes from; none if it is unknown.
    func result(of chain: CertificateChain) async -> (verdict: RevocationVerdict, responses: [VerifiedOCSPResponse]) {
        let questions = OCSPQuestions(transport: transport, limits: limits)
        let verdict = await withTimeout(limits.checkWaitMax) { await ask(questions, about: chain) } ?? .unknown
        return (verdict, verdict == .unknown ? [] : await questions.responses(about: chain))
    }

    private func ask(_ questions: OCSPQuestions, about chain: CertificateChain) async -> RevocationVerdict {
        let leafHasResponder = chain.leaf.hasOCSPResponder
        let intermediateHasResponder = chain.intermediate.hasOCSPResponder
        guard leafHasResponder || intermediateHasResponder else { return .unknown }
        // In both modes X509 fails a root that names a responder, and an invalid chain. Neither means revoked.
        guard chain.root.hasNoOCSPAccess, await chain.passes() else { return .unknown }

        if leafHasResponder, intermediateHasResponder {
            let isGood = await chain.passes {
                OCSPVerifierPolicy(failureMode: .hard, requester: questions.requester(.fails))
            }
            if isGood { return .good }
        }
        guard !Task.isCancelled else { return .unknown }
        let isNotRevoked = await chain.passes {
            OCSPVerifierPolicy(failureMode: .soft, requester: questions.requester(.passes))
        }
        return isNotRevoked ? .unknown : .revoked
    }
}

extension CertificateChain {
    fileprivate func passes() async -> Bool {
        var verifier = Verifier(rootCertificates: CertificateStore([root])) {
            RFC5280Policy(fixedExpiryValidationTime: validationTime)
        }
        return await isValid(&verifier)
    }

    fileprivate func passes(_ policy: () -> some VerifierPolicy) async -> Bool {
        var verifier = Verifier(rootCertificates: CertificateStore([root])) {
            RFC5280Policy(fixedExpiryValidationTime: validationTime)
            policy()
        }
        return await isValid(&verifier)
    }

    /// False also if the leaf is valid by a path other than the whole chain.
    private func isValid(_ verifier: inout Verifier<some VerifierPolicy>) async -> Bool {
        let result = await verifier.validate(leaf: leaf, intermediates: CertificateStore([intermediate]))
        guard case .validCertificate(let path) = result else { return false }
        return path.elementsEqual([leaf, intermediate, root])
    }
}

extension Certificate {
    /// True if X509 would send a request about this certificate.
    fileprivate var hasOCSPResponder: Bool {
        guard let access = try? extensions.authorityInformationAccess else { return false }
        return access.contains { description in
            guard description.method == .ocspServer, case .uniformResourceIdentifier = description.location else {
                return false
            }
            return true
        }
    }

    /// True if X509 accepts the certificate as a root.
    fileprivate var hasNoOCSPAccess: Bool {
        do {
            return try extensions.authorityInformationAccess?.contains { $0.method == .ocspServer } != true
        } catch {
            return false
        }
    }
}
