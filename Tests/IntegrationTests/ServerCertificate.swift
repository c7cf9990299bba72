import Crypto
import Foundation
import X509

/// A self-signed certificate with its key, generated for each use.
struct ServerCertificate {
    let certificatePEM: String
    let keyPEM: String

    /// - Parameters:
    ///   - host: The name that it is for; nil for 127.0.0.1.
    ///   - age: How long ago it was made.
    ///   - life: How long it is valid from then on.
    init(host: String? = nil, age: Duration = .seconds(3600), life: Duration = .seconds(90_000)) throws {
        let start = Date(timeIntervalSinceNow: -Double(age.components.seconds))
        let key = P256.Signing.PrivateKey()
        let name = try DistinguishedName { CommonName("127.0.0.1") }
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: .init(key.publicKey),
            notValidBefore: start, notValidAfter: start.addingTimeInterval(Double(life.components.seconds)),
            issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                SubjectAlternativeNames([host.map { .dnsName($0) } ?? .ipAddress(.init(contentBytes: [127, 0, 0, 1]))])
            },
            issuerPrivateKey: .init(key))
        certificatePEM = try certificate.serializeAsPEM().pemString + "\n"
        keyPEM = key.pemRepresentation + "\n"
    }
}
