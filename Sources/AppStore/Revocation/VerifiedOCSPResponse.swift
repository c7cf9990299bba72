import Crypto
import Encoding
import Foundation
import SwiftASN1
@_spi(FixedExpiryValidationTime) import X509

/// A signed OCSP response about a certificate. Only verification makes one.
package struct VerifiedOCSPResponse: Sendable, Hashable {
    /// SHA-256 of the certificate in DER.
    package let certificateSHA256: [UInt8]
    package let status: RevocationVerdict
    package let thisUpdate: Instant
    package let nextUpdate: Instant
    /// As received, in DER.
    package let bytes: [UInt8]

    /// The tolerance of X509's own check: an hour for time zones, a quarter of an hour for clocks.
    package static let clockTolerance = Duration.seconds(75 * 60)

    /// Verifies a response without a network: whether it is about the certificate, and whether the certificate's issuer
    /// or a responder that the issuer appointed has signed it. The responder's certificate must have been valid when the
    /// response was produced.
    ///
    /// The nonce is not compared, because the request is not known any more. Check ``isValid(at:)`` too.
    package init(
        verifying bytes: [UInt8], about part: CertificateChain.Part, of chain: CertificateChain
    ) async throws(OCSPProblem) {
        let (certificate, issuer) = chain.certificate(part)
        guard let response = try? OCSPResponse(derEncoded: bytes), let der = try? DER.bytes(of: certificate) else {
            throw .undecodable
        }
        guard let found = response.statuses.first(where: { $0.isAbout(certificate, of: issuer) }) else {
            throw .otherCertificate
        }
        guard let nextUpdate = found.nextUpdate else { throw .endless }
        guard await response.isSigned(by: issuer) else { throw .signature }
        certificateSHA256 = Array(SHA256.hash(data: der))
        status = found.status
        thisUpdate = found.thisUpdate
        self.nextUpdate = nextUpdate
        self.bytes = bytes
    }

    /// Whether the instant is between the response's times, with the tolerance for clocks.
    package func isValid(at instant: Instant) -> Bool {
        let tolerance = Int64(Self.clockTolerance / .milliseconds(1))
        return thisUpdate <= instant.advanced(byMilliseconds: tolerance)
            && nextUpdate >= instant.advanced(byMilliseconds: -tolerance)
    }
}

/// Why a response proves nothing about a certificate.
package enum OCSPProblem: Error, Hashable, CustomStringConvertible {
    case undecodable
    case otherCertificate
    case endless
    case signature

    package var description: String {
        switch self {
        case .undecodable: "cannot be decoded as a successful OCSP response"
        case .otherCertificate: "is about another certificate"
        case .endless: "has no nextUpdate"
        case .signature: "is not signed by the certificate's issuer or by a responder that the issuer appointed"
        }
    }
}

extension OCSPResponse {
    fileprivate func isSigned(by issuer: Certificate) async -> Bool {
        let signer = ([issuer] + certificates).first { responder.isNamed(by: $0) }
        guard let signer,
            signer.publicKey.isValidSignature(signature, for: signedBytes, signatureAlgorithm: signatureAlgorithm)
        else { return false }
        var verifier = Verifier(rootCertificates: CertificateStore([issuer])) {
            ResponderPolicy()
            RFC5280Policy(
                fixedExpiryValidationTime: Date(timeIntervalSince1970: Double(producedAt.milliseconds) / 1000))
        }
        let result = await verifier.validate(leaf: signer, intermediates: CertificateStore())
        guard case .validCertificate = result else { return false }
        return true
    }
}

/// Accepts the issuer itself, and a certificate of the issuer for signing OCSP responses.
///
/// - Source: RFC 6960, section 4.2.2.2.
private struct ResponderPolicy: VerifierPolicy {
    let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = []

    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) async -> PolicyEvaluationResult {
        if chain.count == 1 { return .meetsPolicy }
        let usage = try? chain.leaf.extensions.extendedKeyUsage
        return chain.count == 2 && usage?.contains(.ocspSigning) == true
            ? .meetsPolicy : .failsToMeetPolicy(reason: "not a certificate for OCSP responses")
    }
}
