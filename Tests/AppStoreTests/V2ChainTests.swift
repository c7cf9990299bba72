import AppStore
import Crypto
import Encoding
import Foundation
import Simulation
import Subscriptions
import Testing
import X509

/// Certificates with one fault, and the expected refusal.
struct WrongChain: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var failure: VerificationFailure
    private var make: @Sendable () -> JWSSigner

    var signer: JWSSigner { make() }

    init(_ name: String, _ failure: VerificationFailure, _ make: @escaping @Sendable () -> JWSSigner) {
        testDescription = name
        self.failure = failure
        self.make = make
    }

    init(
        _ name: String, _ failure: VerificationFailure,
        change: @escaping @Sendable (inout TestCertificates.Shape) -> Void
    ) {
        self.init(name, failure) { JWSSigner(.shaped(change)) }
    }

    static let markers: [WrongChain] = [
        WrongChain("leaf without Apple's marker", .leafMarker) { $0.leafHasMarker = false },
        WrongChain("intermediate without Apple's marker", .intermediateMarker) { $0.intermediateHasMarker = false },
        WrongChain("intermediate that is not a CA", .untrusted) { $0.intermediateIsCA = false },
    ]

    static let times: [WrongChain] = [
        WrongChain("leaf expired before signing", .expired) {
            $0.leafValidity = .days("2024-01-01", "2024-05-31")
        },
        WrongChain("leaf not yet valid at signing", .notYetValid) {
            $0.leafValidity = .days("2024-06-02", "2027-12-31")
        },
    ]

    static let counts: [WrongChain] = [
        WrongChain("no certificates", .certificateCount) { .standard([]) },
        WrongChain("only the leaf", .certificateCount) { .standard([0]) },
        WrongChain("four certificates", .certificateCount) { .standard([0, 1, 2, 2]) },
        WrongChain("five certificates", .certificateCount) { .standard([0, 1, 1, 1, 2]) },
    ]

    static let orders: [WrongChain] = [
        WrongChain("leaf and intermediate swapped", .key) { .standard([1, 0, 2]) },
        WrongChain("leaf in place of the intermediate", .untrusted) { .standard([0, 0, 2]) },
        WrongChain("root in place of the intermediate", .untrusted) { .standard([0, 2, 2]) },
        WrongChain("leaf and root without the intermediate", .untrusted) { .standard([0, 2]) },
    ]

    static let strangers: [WrongChain] = [
        WrongChain("another root, shaped the same", .untrusted) { JWSSigner(.stranger) },
        WrongChain("another root's leaf and intermediate, with the trusted root after", .untrusted) {
            JWSSigner(key: TestCertificates.stranger.leafKey, x5c: .mixed([.stranger, .stranger, .standard]))
        },
        WrongChain("intermediate of another chain", .untrusted) {
            JWSSigner(key: TestCertificates.standard.leafKey, x5c: .mixed([.standard, .stranger, .standard]))
        },
        WrongChain("leaf of another chain", .untrusted) {
            JWSSigner(key: TestCertificates.stranger.leafKey, x5c: .mixed([.stranger, .standard, .standard]))
        },
        WrongChain("leaf that signed itself", .untrusted) { .selfSigned(with: [1, 2]) },
        WrongChain("leaf that signed itself, three times", .untrusted) { .selfSigned(with: []) },
        WrongChain("leaf whose key is on P-384", .key) { .leafOnP384 },
    ]

    static let all = markers + times + counts + orders + strangers
}

@Suite("Certificates of signed notifications")
struct V2ChainTests {
    private static let signedAt = "2024-06-01T12:00:00Z"
    private let body = V2Body("TEST", at: V2ChainTests.signedAt)

    @Test("a notification with Apple's three certificates is accepted")
    func three() async throws {
        let sent = body.signed()

        let verified = try await V2Receiver().take(sent)

        #expect(verified.stream == StreamKey(app: testBundle, environment: .production))
        #expect(verified.event.type == "TEST")
        #expect(verified.evidence.bytes == sent)
        #expect(verified.bodyDigest == Array(SHA256.hash(data: sent)))
        #expect(verified.chain != nil)
        #expect(!verified.hasShortChain)
    }

    @Test("a chain of two certificates without the root is accepted and marked short")
    func two() async throws {
        let verified = try await V2Receiver().take(body.signed(by: .standard([0, 1])))

        #expect(verified.hasShortChain)
    }

    @Test("a short chain of an inner part is marked too")
    func shortInside() async throws {
        let body = V2Body("DID_RENEW", at: Self.signedAt, v2Row("2", "2024-06-01", "2024-07-01"), v2Renewal())

        let verified = try await V2Receiver().take(body.signed(inner: .standard([0, 1])))

        #expect(verified.hasShortChain)
    }

    @Test("an invalid chain is rejected with the reason", arguments: WrongChain.all)
    func wrong(chain: WrongChain) async {
        #expect(
            await V2Receiver().refusal(body.signed(by: chain.signer)) == .unverified(chain.failure, .notification))
    }

    @Test("an invalid chain inside a valid notification is rejected", arguments: WrongChain.all)
    func wrongInside(chain: WrongChain) async {
        let body = V2Body("DID_RENEW", at: Self.signedAt, v2Row("2", "2024-06-01", "2024-07-01"))

        #expect(
            await V2Receiver().refusal(body.signed(inner: chain.signer)) == .unverified(chain.failure, .transaction))
    }

    @Test("the test root is rejected by a server that trusts only Apple, and accepted once it is added")
    func roots() async throws {
        let sent = body.signed()
        let both = RootCertificates.apple + V2Receiver.roots(.standard)

        #expect(await V2Receiver(roots: .apple).refusal(sent) == .unverified(.untrusted, .notification))
        #expect(await V2Receiver(roots: both).refusal(sent) == nil)
        #expect(await V2Receiver(roots: V2Receiver.roots(.stranger)).refusal(sent) != nil)
    }

    @Test("roots are read from DER, PEM and a PEM file with several certificates")
    func rootFiles() async throws {
        let (standard, stranger) = (TestCertificates.standard, TestCertificates.stranger)
        let two = try #require(RootCertificates(file: Array((stranger.rootPEM + standard.rootPEM).utf8)))
        let one = try #require(RootCertificates(file: Array(standard.rootPEM.utf8)))

        #expect(await V2Receiver(roots: one).refusal(body.signed()) == nil)
        #expect(await V2Receiver(roots: two).refusal(body.signed()) == nil)
        #expect(await V2Receiver(roots: two).refusal(body.signed(by: JWSSigner(.stranger))) == nil)
        #expect(RootCertificates(file: []) == nil)
        #expect(RootCertificates(file: Array("no certificate".utf8)) == nil)
        #expect(RootCertificates(file: Array(standard.rootDER.dropLast())) == nil)
    }

    @Test("a leaf that expired after signing is accepted")
    func expiredToday() async {
        let old = JWSSigner(.shaped { $0.leafValidity = .days("2024-01-01", "2024-12-31") })

        #expect(await V2Receiver().refusal(body.signed(by: old)) == nil)
    }

    @Test(
        "a leaf is valid from its first to its last second and not beyond",
        arguments: [
            ("2024-05-31T23:59:59Z", VerificationFailure.notYetValid), ("2024-06-01T00:00:00Z", nil),
            ("2024-06-30T23:59:59Z", nil), ("2024-07-01T00:00:00Z", .expired),
        ])
    func borders(signedAt: String, failure: VerificationFailure?) async {
        let signer = JWSSigner(.shaped { $0.leafValidity = .days("2024-06-01", "2024-06-30") })

        let refusal = await V2Receiver().refusal(V2Body("TEST", at: signedAt).signed(by: signer))

        #expect(refusal == failure.map { .unverified($0, .notification) })
    }

    @Test(
        "a payload without a readable signing time is verified at the time of receipt",
        arguments: ["null", "\"soon\"", "1e400", "-1"])
    func noTime(value: String) async {
        let receiver = V2Receiver()
        let sent = body.changing { $0.payload["signedDate"] = .raw(value) }
            .signed(by: JWSSigner(.shaped { $0.leafValidity = .days("2024-01-01", "2024-12-31") }))

        await #expect(throws: Never.self) { try await receiver.take(sent, receivedAt: day("2024-12-31")) }
        await #expect(throws: Refusal.unverified(.expired, .notification)) {
            try await receiver.take(sent, receivedAt: day("2025-01-01"))
        }
    }

    @Test("a notification without a signing time is verified at that of its parts, as those of 2021 are")
    func timeOfParts() async {
        let row = v2Row("2", "2024-05-01", "2024-06-01").with(["signedDate": ms("2024-05-20")])
        let sent = V2Body("DID_RENEW", at: Self.signedAt, row).changing { $0.payload["signedDate"] = nil }
        let signer = JWSSigner(.shaped { $0.leafValidity = .days("2024-05-01", "2024-05-31") })
        let signed = sent.signed(by: signer)

        await #expect(throws: Never.self) { try await V2Receiver().take(signed, receivedAt: day("2030-01-01")) }
    }

    @Test("each part is verified at its own signing time")
    func ownTimes() async {
        let old = JWSSigner(.shaped { $0.leafValidity = .days("2024-01-01", "2024-05-31") })
        let row = v2Row("2", "2024-05-01", "2024-06-01").with(["signedDate": ms("2024-05-01")])
        let body = V2Body("REFUND_DECLINED", at: Self.signedAt, row)
        let appTransaction = rescinded(at: Self.signedAt)
            .changing { $0.appTransaction?["receiptCreationDate"] = ms("2024-05-01") }

        #expect(await V2Receiver().refusal(body.signed(inner: old)) == nil)
        #expect(await V2Receiver().refusal(appTransaction.signed(inner: old)) == nil)
        #expect(
            await V2Receiver().refusal(rescinded(at: Self.signedAt).signed(inner: old))
                == .unverified(.expired, .appTransaction))
    }
}

// MARK: - Unusual certificates

extension TestCertificates {
    /// A separate chain, under a root that is not trusted.
    static let stranger = shaped { $0.label = "somebody else" }

    static func shaped(_ change: (inout Shape) -> Void) -> TestCertificates {
        var shape = Shape()
        change(&shape)
        return TestCertificates(shape)
    }
}

extension ClosedRange<Instant> {
    /// From the first second of one day to the last second of another.
    static func days(_ first: String, _ last: String) -> Self {
        day(first)...day(last).advanced(byMilliseconds: 86_399_000)
    }
}

extension [String] {
    /// Leaf, intermediate and root from three different chains.
    static func mixed(_ chains: [TestCertificates]) -> [String] {
        zip(chains, 0...).map { $0.x5c[$1] }
    }
}

extension JWSSigner {
    /// The standard leaf's signature over a header with the standard certificates of the given places.
    static func standard(_ places: [Int]) -> JWSSigner {
        JWSSigner(.standard, x5c: places.map { TestCertificates.standard.x5c[$0] })
    }

    /// - Parameter places: The standard certificates that follow the leaf; the leaf itself twice when empty.
    static func selfSigned(with places: [Int]) -> JWSSigner {
        let key = TestKeys.p256("self-signed")
        let leaf = certificate(
            subject: TestCertificates.standard.leaf.subject, issuer: TestCertificates.standard.leaf.subject,
            key: .init(key.publicKey), issuerKey: .init(key))
        let rest = places.isEmpty ? [leaf, leaf] : places.map { TestCertificates.standard.x5c[$0] }
        return JWSSigner(key: key, x5c: [leaf] + rest)
    }

    static var leafOnP384: JWSSigner {
        let standard = TestCertificates.standard
        let leaf = certificate(
            subject: standard.leaf.subject, issuer: standard.intermediate.subject,
            key: .init(TestKeys.p384("leaf").publicKey), issuerKey: .init(standard.intermediateKey))
        return JWSSigner(key: standard.leafKey, x5c: [leaf] + standard.x5c.dropFirst())
    }

    private static func certificate(
        subject: DistinguishedName, issuer: DistinguishedName, key: Certificate.PublicKey,
        issuerKey: Certificate.PrivateKey
    ) -> String {
        do {
            let certificate = try Certificate(
                version: .v3, serialNumber: .init(9), publicKey: key,
                notValidBefore: Date(timeIntervalSince1970: 1_704_067_200),
                notValidAfter: Date(timeIntervalSince1970: 1_830_297_599), issuer: issuer, subject: subject,
                signatureAlgorithm: issuerKey.publicKey.isOnP256 ? .ecdsaWithSHA256 : .ecdsaWithSHA384,
                extensions: try Certificate.Extensions {
                    Critical(BasicConstraints.notCertificateAuthority)
                    Critical(KeyUsage(digitalSignature: true))
                    Certificate.Extension(oid: TestCertificates.leafMarker, critical: false, value: [0x05, 0x00])
                },
                issuerPrivateKey: issuerKey)
            return Data(try certificate.serializeAsPEM().derBytes).base64EncodedString()
        } catch {
            preconditionFailure("a test certificate cannot be made: \(error)")
        }
    }
}

extension Certificate.PublicKey {
    fileprivate var isOnP256: Bool { P256.Signing.PublicKey(self) != nil }
}
