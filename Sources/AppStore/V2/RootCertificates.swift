import CResources
import Crypto
import Encoding
import SwiftASN1
import X509

/// The trusted roots. They are embedded in this program or configured by its operator, never taken from a sender.
package struct RootCertificates: Sendable {
    let certificates: [Certificate]

    /// Apple Root CA - G3, which is embedded in this program.
    package static let apple: RootCertificates = {
        let file = embedded_apple_root()
        let bytes = Array(UnsafeBufferPointer(start: file.start, count: file.count))
        guard let root = try? Certificate(derEncoded: bytes) else {
            preconditionFailure("the embedded root certificate is damaged")
        }
        return RootCertificates(certificates: [root])
    }()

    /// Reads a file: one certificate in DER, or one or more in PEM. Nil if it contains none, or one that is invalid.
    package init?(file bytes: [UInt8]) {
        if let root = try? Certificate(derEncoded: bytes) {
            certificates = [root]
            return
        }
        var found: [Certificate] = []
        var lines: [Substring]?
        for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline) {
            if line == "-----BEGIN CERTIFICATE-----" {
                lines = []
            } else if line == "-----END CERTIFICATE-----" {
                let text = (lines ?? []).joined().utf8
                guard let der = Base64.decode(Array(text)[...], .standard),
                    let root = try? Certificate(derEncoded: der)
                else { return nil }
                found.append(root)
                lines = nil
            } else {
                lines?.append(line)
            }
        }
        guard !found.isEmpty else { return nil }
        certificates = found
    }

    private init(certificates: [Certificate]) {
        self.certificates = certificates
    }

    /// SHA-256 of all certificates in DER, in an order that does not depend on that of the files.
    package var digest: [UInt8] {
        let digests = certificates.map { certificate -> [UInt8] in
            var serializer = DER.Serializer()
            try? serializer.serialize(certificate)
            return Array(SHA256.hash(data: serializer.serializedBytes))
        }
        let ordered = Set(digests).sorted { $0.lexicographicallyPrecedes($1) }
        return Array(SHA256.hash(data: Array(ordered.joined())))
    }

    package static func + (left: RootCertificates, right: RootCertificates) -> RootCertificates {
        RootCertificates(certificates: left.certificates + right.certificates)
    }
}
