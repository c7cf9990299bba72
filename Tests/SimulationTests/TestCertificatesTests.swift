import Crypto
import Encoding
import Foundation
import Simulation
import SwiftASN1
import Testing
@_spi(FixedExpiryValidationTime) import X509

@Suite("The test chain verifies like Apple's, and invalid chains do not")
struct TestCertificatesTests {
    private static func isValid(
        _ chain: TestCertificates, root: TestCertificates? = nil, at date: String = "2025-06-01"
    ) async throws -> Bool {
        let instant = try #require(Instant(iso8601: date))
        var verifier = Verifier(rootCertificates: CertificateStore([(root ?? chain).root])) {
            RFC5280Policy(
                fixedExpiryValidationTime: Date(timeIntervalSince1970: Double(instant.milliseconds) / 1000))
        }
        let result = await verifier.validate(
            leaf: chain.leaf, intermediates: CertificateStore([chain.intermediate]))
        if case .validCertificate = result { return true }
        return false
    }

    @Test("leaf, intermediate and root verify, and decode from their bytes")
    func standard() async throws {
        let chain = TestCertificates.standard

        #expect(try await Self.isValid(chain))
        #expect(chain.x5c.count == 3)
        let certificates = try chain.x5c.map { text in
            try Certificate(derEncoded: Array(try #require(Data(base64Encoded: text))))
        }
        #expect(certificates == [chain.leaf, chain.intermediate, chain.root])
        #expect(try Certificate(pemEncoded: chain.rootPEM) == chain.root)
    }

    @Test("the root has fixed bytes, and is signed by the key of its label")
    func fixedRoot() throws {
        let chain = TestCertificates.standard

        #expect(chain.root.publicKey == Certificate.PublicKey(chain.rootKey.publicKey))
        #expect(chain.root.publicKey.isValidSignature(chain.root.signature, for: chain.root))
        #expect(
            SHA256.hash(data: chain.rootDER).map { String(format: "%02x", $0) }.joined()
                == "032ac9c66ccdceee3e90eaa02479daf00ea745450287be5c33a71cf0d25d655a")
    }

    @Test("keys, constraints and markers have Apple's shape")
    func shape() throws {
        let chain = TestCertificates.standard

        #expect(chain.leaf.extensions[oid: TestCertificates.leafMarker]?.value == [0x05, 0x00])
        #expect(chain.leaf.extensions[oid: TestCertificates.leafMarker]?.critical == false)
        #expect(chain.intermediate.extensions[oid: TestCertificates.intermediateMarker]?.value == [0x05, 0x00])
        let constraints = try #require(chain.intermediate.extensions[oid: .X509ExtensionID.basicConstraints])
        #expect(constraints.critical)
        #expect(try BasicConstraints(constraints) == .isCertificateAuthority(maxPathLength: 0))
        #expect(try chain.intermediate.extensions.keyUsage == KeyUsage(keyCertSign: true, cRLSign: true))
        #expect(try chain.leaf.extensions.keyUsage == KeyUsage(digitalSignature: true))
        #expect(P256.Signing.PublicKey(chain.leaf.publicKey) != nil)
        #expect(P384.Signing.PublicKey(chain.intermediate.publicKey) != nil)
        #expect("\(chain.root.subject)".contains("Make-Believe"))
    }

    @Test("the leaf is valid from its first to its last second")
    func validity() async throws {
        let chain = TestCertificates.standard

        #expect(try await !Self.isValid(chain, at: "2023-12-31T23:59:59Z"))
        #expect(try await Self.isValid(chain, at: "2024-01-01T00:00:00Z"))
        #expect(try await Self.isValid(chain, at: "2027-12-31T23:59:59Z"))
        #expect(try await !Self.isValid(chain, at: "2028-01-01T00:00:00Z"))
    }

    @Test("chains of other labels have other keys and do not verify under each other's root")
    func otherLabel() async throws {
        var shape = TestCertificates.Shape()
        shape.label = "another store"
        let other = TestCertificates(shape)

        #expect(try await Self.isValid(other))
        #expect(try await !Self.isValid(other, root: .standard))
        #expect(other.leafKey.rawRepresentation != TestCertificates.standard.leafKey.rawRepresentation)
        #expect(other.leafKey.rawRepresentation == TestCertificates(shape).leafKey.rawRepresentation)
    }

    @Test("an intermediate that is not a certificate authority invalidates the chain")
    func notAuthority() async throws {
        var shape = TestCertificates.Shape()
        shape.intermediateIsCA = false

        #expect(try await !Self.isValid(TestCertificates(shape)))
    }

    @Test("markers and the OCSP responder are optional")
    func variants() throws {
        var shape = TestCertificates.Shape()
        shape.leafHasMarker = false
        shape.intermediateHasMarker = false
        shape.ocspResponder = "http://127.0.0.1:9999/ocsp"
        let chain = TestCertificates(shape)

        #expect(chain.leaf.extensions[oid: TestCertificates.leafMarker] == nil)
        #expect(chain.intermediate.extensions[oid: TestCertificates.intermediateMarker] == nil)
        for certificate in [chain.leaf, chain.intermediate] {
            let information = try #require(try certificate.extensions.authorityInformationAccess)
            #expect(information.map(\.location) == [.uniformResourceIdentifier("http://127.0.0.1:9999/ocsp")])
        }
        #expect(try TestCertificates.standard.leaf.extensions.authorityInformationAccess == nil)
    }
}
