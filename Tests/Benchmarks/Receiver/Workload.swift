import AppStore
import Foundation
import Simulation
import Subscriptions
import TestSupport

/// The version of the notifications.
enum Format: String, CaseIterable, Sendable {
    case v1, v2

    var section: Section { self == .v1 ? .v1 : .v2 }
    var label: String { self == .v1 ? "V1" : "V2" }

    /// The target rate with 64 connections.
    var goalPerSecond: Int { self == .v1 ? 10_000 : 5_800 }
}

/// Distinct bodies of one format: all of them in a file of requests, some of them in memory.
struct Workload: Sendable {
    let format: Format
    let requests: RequestFile
    /// The first bodies.
    let sample: [[UInt8]]
    let bodyBytes: Double
    let streams: Int

    /// The number of bodies in memory, for the floors.
    private static let sampleCount = 4000

    /// Makes more bodies than a run at the target rate sends.
    ///
    /// - Parameter streams: The number of apps of bodies of version 1.
    static func make(
        _ format: Format, seconds: Int, streams: Int = 1, in folder: Folder
    ) async throws -> Workload {
        try await make(format, count: format.goalPerSecond * (seconds + 1), streams: streams, in: folder)
    }

    static func make(
        _ format: Format, count: Int, streams: Int = 1, in folder: Folder
    ) async throws -> Workload {
        progress("making \(count) distinct bodies, \(format.label)")
        let source = try source(format, count: count, streams: streams)
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
        guard writer.count == count else { throw BenchError("the simulation has too few notifications") }
        return Workload(
            format: format, requests: try writer.finish(), sample: sample, bodyBytes: Double(bytes) / Double(count),
            streams: streams)
    }

    private static let chunkCount = 500

    /// The bundle IDs of a number of apps.
    static func appNames(_ count: Int) -> [String] {
        count == 1 ? [V1Body.app] : (1...count).map { "com.example.app\($0)" }
    }

    /// V1: six transactions and two copies of a receipt of 8 KB, 22 KB in total. V2: signed, with two signed texts
    /// inside.
    private static func source(_ format: Format, count: Int, streams: Int) throws -> BodySource {
        guard format == .v2 else {
            let apps = appNames(streams)
            return BodySource(count: count) { BodySize.middle.body(account: $0, app: apps[$0 % apps.count]) }
        }
        let app = SimulatedApp(bundleId: V1Body.app, appAppleId: 1, environment: .production, sharedSecret: nil)
        var settings = Simulation.Settings(app: app)
        settings.stories = [.renewals, .trialConversion, .switchOffAndOn, .graceRecovered, .upgrade, .downgrade]
        settings.subscriptions = count / 2
        guard let simulation = Simulation(settings) else { throw BenchError("the simulation has no stories") }
        let deliveries = simulation.deliveries
        return BodySource(count: deliveries.count) { number in
            let body = deliveries[number].body()
            return body.count > signedBytesMin ? body : nil
        }
    }

    /// Smaller bodies have no renewal info.
    private static let signedBytesMin = 13_000

    var verifier: NotificationVerifier {
        get throws {
            guard let roots = RootCertificates(file: TestCertificates.standard.rootDER) else {
                throw BenchError("no root certificate")
            }
            return NotificationVerifier(
                apps: Apps(
                    Self.appNames(streams).map {
                        App(bundleId: $0, appAppleId: 1, sharedSecrets: [V1Body.secret])
                    }),
                signatures: SignatureVerifier(roots: roots))
        }
    }
}

/// Bodies by number, made on demand; nil for unsuitable ones.
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
