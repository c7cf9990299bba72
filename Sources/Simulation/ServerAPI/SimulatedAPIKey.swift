import Crypto

/// The API key of the simulated app's developer. It is public, like all keys of the simulator.
package struct SimulatedAPIKey: Sendable {
    package let issuerId: String
    package let keyId: String
    package let privateKey: P256.Signing.PrivateKey

    package static let standard = SimulatedAPIKey(
        issuerId: "57246542-96fe-1a63-e053-0824d011072a", keyId: "SIMULATED1",
        privateKey: TestKeys.p256("make-believe App Store Server API"))

    /// The private key as in Apple's `.p8` files: PEM, PKCS#8.
    package var pem: String { privateKey.pemRepresentation + "\n" }
}
