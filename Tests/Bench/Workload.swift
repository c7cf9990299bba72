import AppStore
import Foundation
import StoreSimulator
import Subscriptions
import TestSupport

/// The wire format of what is sent.
enum Format: String, CaseIterable, Sendable {
    case v1, v2

    var section: Section { self == .v1 ? .v1 : .v2 }
    var label: String { self == .v1 ? "V1" : "V2" }

    /// What the owner wants to see taken in a second, with 64 connections.
    var goalPerSecond: Int { self == .v1 ? 10_000 : 5_800 }
}

/// Distinct bodies of one format, as a file of requests, and a part of them in memory.
struct Workload: Sendable {
    let format: Format
    let requests: RequestFile
    /// The first of them.
    let sample: [[UInt8]]
    let bodyBytes: Double

    /// How many are kept in memory for the floors.
    private static let sampleCount = 4000

    /// Makes more than the goal would take, so that no run comes to their end.
    static func make(_ format: Format, seconds: Int, in folder: Folder) async throws -> Workload {
        let count = format.goalPerSecond * (seconds + 1)
        progress("making \(count) distinct bodies, \(format.label)")
        let source = try source(format, count: count)
        var writer = try RequestFile.Writer(path: folder.file("\(format.rawValue).requests"))
        var sample: [[UInt8]] = []
        var bytes = 0
        for first in stride(from: 0, to: source.count, by: chunkCount * 2) where writer.count < count {
            async let left = source.bodies(first..<first + chunkCount)
            async let right = source.bodies(first + chunkCount..<first + chunkCount * 2)
            for body in await left + right where writer.count < count {
                if sample.count < sampleCount { sample.append(body) }
                bytes += body.count
                try writer.append(body)
            }
        }
        guard writer.count == count else { throw BenchError("the stories are too few") }
        return Workload(
            format: format, requests: try writer.finish(), sample: sample, bodyBytes: Double(bytes) / Double(count))
    }

    private static let chunkCount = 500

    /// V1: six transactions and a receipt of 8 KB, sent twice, 22 KB in all. V2: signed, with two signed texts inside.
    private static func source(_ format: Format, count: Int) throws -> BodySource {
        guard format == .v2 else { return BodySource(count: count) { BodySize.middle.body(account: $0) } }
        let app = SimulatedApp(bundleId: V1Body.app, appAppleId: 1, environment: .production, sharedSecret: nil)
        var settings = Simulation.Settings(app: app)
        settings.stories = [.renewals, .trialConversion, .switchOffAndOn, .graceRecovered, .upgrade, .downgrade]
        settings.subscriptions = count / 2
        guard let simulation = Simulation(settings) else { throw BenchError("there is no story to tell") }
        let deliveries = simulation.deliveries
        return BodySource(count: deliveries.count) { number in
            let body = deliveries[number].body()
            return body.count > signedBytesMin ? body : nil
        }
    }

    /// Less has no renewal info inside.
    private static let signedBytesMin = 13_000

    var verifier: NotificationVerifier {
        get throws {
            guard let roots = RootCertificates(file: TestCertificates.standard.rootDER) else {
                throw BenchError("no root certificate")
            }
            return NotificationVerifier(
                apps: Apps([App(bundleId: V1Body.app, appAppleId: 1, sharedSecrets: [V1Body.secret])]),
                signatures: SignatureVerifier(roots: roots))
        }
    }
}

/// Bodies by their number, made when they are asked for; nil where there is none that is wanted.
private struct BodySource: Sendable {
    let count: Int
    let make: @Sendable (Int) -> [UInt8]?

    init(count: Int, make: @escaping @Sendable (Int) -> [UInt8]?) {
        self.count = count
        self.make = make
    }

    func bodies(_ numbers: Range<Int>) async -> [[UInt8]] {
        numbers.clamped(to: 0..<count).compactMap(make)
    }
}
