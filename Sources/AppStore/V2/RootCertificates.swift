import Encoding
import X509

/// The roots that signatures must lead to. They come with this program or from its operator, never from a sender.
package struct RootCertificates: Sendable {
    let certificates: [Certificate]

    /// Apple Root CA - G3, which is shipped inside.
    package static let apple: RootCertificates = {
        guard let root = try? Certificate(derEncoded: PackageResources.AppleRootCA_G3_cer) else {
            preconditionFailure("the root certificate inside this program is damaged")
        }
        return RootCertificates(certificates: [root])
    }()

    /// Those of a file: DER, or PEM with one or more certificates. Nil if it holds none.
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

    package static func + (left: RootCertificates, right: RootCertificates) -> RootCertificates {
        RootCertificates(certificates: left.certificates + right.certificates)
    }
}
