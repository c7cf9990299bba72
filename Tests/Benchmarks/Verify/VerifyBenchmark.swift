import AppStore
import ArgumentParser
import Crypto
import Encoding
import Foundation
import Simulation
import Subscriptions
import TestSupport

// Measures verifying and decoding a signed notification with two signed texts inside and a cached chain, compared with
// the floor: three signature checks and parsing four JSON texts.
//
//     swift build -c release --product Benchmarks && .build/release/Benchmarks verify
//
// Instructions vary less than time; see DecodeBenchmark for how to count them.

private let roundCount = 5
private let iterations = 500

struct VerifyBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Measure verifying and decoding a signed notification.")

    func run() async throws {
        let body = try Self.firstBody()
        let certificates = TestCertificates.standard
        guard let roots = RootCertificates(file: certificates.rootDER) else { throw Unusable() }
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: Self.bundleId)]), signatures: SignatureVerifier(roots: roots))
        let receivedAt = Instant(milliseconds: 1_790_000_000_000) ?? .latest
        let parts = try SignedParts(body)
        let key = certificates.leafKey.publicKey

        var ours = Rounds()
        var signatures = Rounds()
        var parsing = Rounds()
        _ = try await verifier.verify(body, receivedAt: receivedAt)
        // Alternating, so that other load on the machine affects all.
        for _ in 0..<roundCount {
            try await ours.add {
                guard try await verifier.verify(body, receivedAt: receivedAt).event.transactions.count == 1 else {
                    throw Unusable()
                }
            }
            await signatures.add {
                for part in parts.all { precondition(key.isValidSignature(part.signature, for: part.signedText)) }
            }
            await parsing.add {
                for text in parts.texts { precondition((try? JSONDocument(text)) != nil) }
            }
        }
        print("signed notification (\(body.count) bytes, \(iterations) iterations, \(roundCount) rounds)")
        print("  verify and decode     \(ours)")
        print("  3 bare verifications  \(signatures)")
        print("  JSON of 4 texts       \(parsing)")
        print(
            "  ratio to the floors: \(String(format: "%.3f", ours.median / (signatures.median + parsing.median)))")
    }

    private static let bundleId = "com.example.app"

    /// The first body of a simulation that contains both a transaction and renewal info.
    private static func firstBody() throws -> [UInt8] {
        var settings = Simulation.Settings(
            app: SimulatedApp(bundleId: bundleId, appAppleId: nil, environment: .sandbox, sharedSecret: nil))
        settings.subscriptions = 20
        guard let simulation = Simulation(settings) else { throw Unusable() }
        for delivery in simulation.deliveries {
            let body = delivery.body()
            if (try? SignedParts(body))?.all.count == 3 { return body }
        }
        throw Unusable()
    }
}

/// Microseconds per body, one value for each round.
private struct Rounds: CustomStringConvertible {
    private var microseconds: [Double] = []

    mutating func add(_ work: @Sendable () async throws -> Void) async rethrows {
        let start = ContinuousClock.now
        for _ in 0..<iterations { try await work() }
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        microseconds.append((Double(seconds) * 1e6 + Double(attoseconds) / 1e12) / Double(iterations))
        microseconds.sort()
    }

    var median: Double { microseconds[microseconds.count / 2] }

    var description: String {
        String(
            format: "median %.1f us, %.1f to %.1f", median, microseconds[0], microseconds[microseconds.count - 1])
    }
}
