/// The check at which the verification of a JWS failed.
package enum VerificationFailure: String, Error, Sendable, CaseIterable {
    case header = "jws_header"
    case algorithm = "jws_algorithm"
    case criticalHeader = "jws_critical_header"
    case certificateCount = "certificate_count"
    case certificateText = "certificate_base64"
    case certificate = "certificate_unreadable"
    case untrusted = "chain_untrusted"
    case leafMarker = "leaf_marker_missing"
    case intermediateMarker = "intermediate_marker_missing"
    case notYetValid = "chain_not_yet_valid"
    case expired = "chain_expired"
    case key = "leaf_key_not_p256"
    case signatureForm = "signature_form"
    case signature = "signature_wrong"
    case revoked = "chain_revoked"
    /// Accepted once the OCSP responder is available again.
    case revocationUnknown = "revocation_unknown"

    package var explanation: String {
        switch self {
        case .header: "has a header that is not a JSON object in base64url"
        case .algorithm: "is not signed with ES256 (alg)"
        case .criticalHeader: "has critical header parameters (crit), which are not supported"
        case .certificateCount: "does not contain two or three certificates (x5c)"
        case .certificateText: "has a certificate that is not base64"
        case .certificate: "has a certificate that cannot be decoded"
        case .untrusted: "has certificates that do not lead to a trusted root"
        case .leafMarker: "has a leaf certificate that is not for App Store receipts (1.2.840.113635.100.6.11.1)"
        case .intermediateMarker:
            "has an intermediate certificate that is not from Apple's developer relations (1.2.840.113635.100.6.2.1)"
        case .notYetValid: "has a certificate that was not yet valid when it was signed"
        case .expired: "has a certificate that had expired when it was signed"
        case .key: "has a leaf certificate whose key is not on P-256"
        case .signatureForm: "has a signature that is not 64 bytes"
        case .signature: "has a signature that does not match"
        case .revoked: "has a certificate that was revoked"
        case .revocationUnknown: "has certificates whose revocation status could not be determined"
        }
    }
}
