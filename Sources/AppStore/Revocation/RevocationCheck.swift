@_spi(FixedExpiryValidationTime) import X509

/// Asks once what the issuers of a chain say of it.
///
/// X509's policy knows "passes" and "fails", each of them with more meanings than one: a certificate without a
/// responder passes, and so does an unanswered question where errors are forgiven; a broken chain and an unusable
/// answer fail. So it is run twice, and each run is set up so that one of its outcomes has a single cause:
///
/// 1. Hard, and silence fails: a pass means that every certificate is good.
/// 2. Soft, and silence passes: a failure means that a signed answer says "revoked".
///
/// The second run asks again, since each question has a nonce of its own that its answer may have to repeat.
struct RevocationCheck: Sendable {
    let transport: any OCSPTransport
    let limits: RevocationLimits

    /// Certificates have to be within their validity at the chain's validation time, answers at present.
    ///
    /// Returns after ``RevocationLimits/checkWaitMax`` at the latest, and at once when cancelled; with `unknown` then.
    func verdict(of chain: CertificateChain) async -> RevocationVerdict {
        await within(limits.checkWaitMax) { await ask(about: chain) } ?? .unknown
    }

    private func ask(about chain: CertificateChain) async -> RevocationVerdict {
        let leafHasResponder = chain.leaf.hasOCSPResponder
        let intermediateHasResponder = chain.intermediate.hasOCSPResponder
        guard leafHasResponder || intermediateHasResponder else { return .unknown }
        // In both modes X509 fails a root that names a responder, and a chain that is invalid: not revoked for that.
        guard chain.root.hasNoOCSPAccess, await chain.passes() else { return .unknown }

        let questions = OCSPQuestions(transport: transport, limits: limits)
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

    /// False as well if the leaf is valid by another path than the whole chain.
    private func isValid(_ verifier: inout Verifier<some VerifierPolicy>) async -> Bool {
        let result = await verifier.validate(leaf: leaf, intermediates: CertificateStore([intermediate]))
        guard case .validCertificate(let path) = result else { return false }
        return path.elementsEqual([leaf, intermediate, root])
    }
}

extension Certificate {
    /// Whether X509 would ask anybody about this certificate.
    fileprivate var hasOCSPResponder: Bool {
        guard let access = try? extensions.authorityInformationAccess else { return false }
        return access.contains { description in
            guard description.method == .ocspServer, case .uniformResourceIdentifier = description.location else {
                return false
            }
            return true
        }
    }

    /// Whether the certificate can be a root for X509.
    fileprivate var hasNoOCSPAccess: Bool {
        do {
            return try extensions.authorityInformationAccess?.contains { $0.method == .ocspServer } != true
        } catch {
            return false
        }
    }
}
