import Crypto
import Encoding
import Foundation
import Simulation
import TestSupport

/// The floors of decoding: parsing the JSON of a body and its signed payloads, and checking its three signatures.
struct ParseFloor {
    let workload: Workload

    private static let bodiesMax = 1000

    func measure(_ samples: inout Samples) throws {
        let bodies = workload.sample.prefix(Self.bodiesMax)
        let name = workload.format.rawValue
        guard workload.format == .v2 else {
            samples.add("\(name).json.server", try Self.microseconds(bodies) { _ = try JSONDocument($0) })
            return
        }
        let parts = try bodies.map { try SignedParts($0) }
        let key = TestCertificates.standard.leafKey.publicKey
        samples.add(
            "\(name).json.server",
            try Self.microseconds(parts[...]) { for text in $0.texts { _ = try JSONDocument(text) } })
        samples.add(
            "\(name).signatures.server",
            try Self.microseconds(parts[...]) { parts in
                guard parts.all.count == 3 else { throw BenchError("a body does not have three signatures") }
                for part in parts.all where !key.isValidSignature(part.signature, for: part.signedText) {
                    throw BenchError("a signature does not match")
                }
            })
    }

    /// Processor time per element.
    static func microseconds<Work>(_ all: ArraySlice<Work>, _ work: (Work) throws -> Void) rethrows -> Double {
        func now() -> Double {
            var time = timespec()
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
            return Double(time.tv_sec) * 1e6 + Double(time.tv_nsec) / 1e3
        }
        let start = now()
        for one in all { try work(one) }
        return (now() - start) / Double(all.count)
    }
}
