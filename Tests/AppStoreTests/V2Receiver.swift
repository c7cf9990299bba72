import AppStore
import Crypto
import Encoding
import Simulation

/// A server that accepts notifications signed under the root of the test certificates.
struct V2Receiver: Sendable {
    let verifier: NotificationVerifier
    /// Our clock: later than all signatures of the tests.
    static let receivedAt = day("2026-01-01")

    init(
        _ apps: [App] = [App(bundleId: testBundle, appAppleId: Int64(testAppleId))],
        roots: RootCertificates = V2Receiver.roots(.standard)
    ) {
        verifier = NotificationVerifier(apps: Apps(apps), signatures: SignatureVerifier(roots: roots))
    }

    static func roots(_ certificates: TestCertificates) -> RootCertificates {
        RootCertificates(file: certificates.rootDER)!
    }

    func take(_ body: [UInt8], receivedAt: Instant = Self.receivedAt) async throws(Refusal) -> VerifiedNotification {
        try await verifier.verify(body, receivedAt: receivedAt)
    }

    /// Nil if the body is accepted.
    func refusal(_ body: [UInt8]) async -> Refusal? {
        do throws(Refusal) {
            _ = try await take(body)
            return nil
        } catch {
            return error
        }
    }
}

/// A signed text with a given header and a signature that matches it.
struct V2Text {
    var header: [UInt8]
    var payload: [UInt8]
    var key = TestCertificates.standard.leafKey

    init(header: String, payload: [UInt8]) {
        self.header = Array(header.utf8)
        self.payload = payload
    }

    /// Apple's header, with the members that a test changes.
    static func header(alg: String? = "\"ES256\"", x5c: String? = nil, more: String = "") -> String {
        let chain = x5c ?? list(TestCertificates.standard.x5c)
        let members = [alg.map { "\"alg\":\($0)" }, "\"x5c\":\(chain)"].compactMap { $0 }
        return "{\(members.joined(separator: ","))\(more)}"
    }

    static func list(_ certificates: [String]) -> String {
        "[" + certificates.map { "\"\($0)\"" }.joined(separator: ",") + "]"
    }

    /// The signed bytes: two segments and the dot between them.
    var text: [UInt8] { base64URL(header) + [UInt8(ascii: ".")] + base64URL(payload) }

    var signature: P256.Signing.ECDSASignature {
        do {
            return try key.signature(for: text)
        } catch {
            preconditionFailure("a test text cannot be signed: \(error)")
        }
    }

    func body(signature: [UInt8]? = nil) -> [UInt8] {
        envelope(text + [UInt8(ascii: ".")] + base64URL(signature ?? Array(self.signature.rawRepresentation)))
    }
}
