import AppStore
import ArgumentParser
import Encoding
import Foundation
import TestSupport

// Measures decoding a version 1 body into an event, compared with Foundation's JSONDecoder reading a few fields of the
// same body.
//
//     swift build -c release --product Benchmarks
//     .build/release/Benchmarks decode --size all --iterations 2000
//
// Instructions vary less than time. The difference of two runs gives the instructions per body without start-up:
//
//     perf stat -e instructions:u .build/release/Benchmarks decode --size 22 --iterations 1000 --only ours
//     perf stat -e instructions:u .build/release/Benchmarks decode --size 22 --iterations 2000 --only ours
//     (second - first) / (5 rounds x 1000 bodies)
//
// If the processor does not count instructions (some virtual machines), use `valgrind --tool=callgrind` instead of
// `perf stat`, on a copy without debug information (`objcopy --strip-debug`) and with few iterations.
//
// To profile:
//
//     perf record -g .build/release/Benchmarks decode --size 22 --iterations 20000 --only ours
//     perf report --no-children

private let roundCount = 5

struct DecodeBenchmark: ParsableCommand {
    enum Subject: String, CaseIterable, ExpressibleByArgument {
        case ours, foundation
    }

    static let configuration = CommandConfiguration(
        commandName: "decode", abstract: "Measure decoding a version 1 body, compared with Foundation's decoder.")

    @Option(help: ArgumentHelp("The size of the body: 2, 22, 100 or all.", valueName: "kilobytes"))
    var size = "all"

    @Option(help: "Bodies per round.")
    var iterations = 2000

    @Option(help: "Measure only one decoder: ours or foundation. [both]")
    var only: Subject?

    func validate() throws {
        guard !sizes.isEmpty else { throw ValidationError("--size is unknown: expected 2, 22, 100 or all.") }
        guard iterations > 0 else { throw ValidationError("--iterations must be positive.") }
    }

    func run() {
        for size in sizes { measure(size) }
    }

    private var sizes: [BodySize] {
        size == "all" ? BodySize.allCases : [Int(size).flatMap(BodySize.init)].compactMap(\.self)
    }

    private func measure(_ size: BodySize) {
        let subjects = only.map { [$0] } ?? Subject.allCases
        let body = size.body
        let data = Data(body)
        var ours = Rounds()
        var foundation = Rounds()
        // Alternating, so that other load on the machine affects both.
        for _ in 0..<roundCount {
            if subjects.contains(.ours) {
                ours.add(iterations) { Self.rowCountOfOurs(body) }
            }
            if subjects.contains(.foundation) {
                foundation.add(iterations) { Self.rowCountOfFoundation(data) }
            }
        }
        print("\(size.rawValue) KB (\(body.count) bytes, \(iterations) iterations, \(roundCount) rounds)")
        if let line = ours.description { print("  ours        \(line)") }
        if let line = foundation.description { print("  Foundation  \(line)") }
        if let own = ours.median, let other = foundation.median {
            print("  ours / Foundation: \(rounded(own / other))")
        }
    }

    private static let receivedAt = Instant(milliseconds: 1_700_000_000_000) ?? .latest

    private static func rowCountOfOurs(_ body: [UInt8]) -> Int {
        guard let notification = try? AppleNotification(decoding: body) else { return -1 }
        return notification.event(receivedAt: receivedAt).transactions.count
    }

    private static func rowCountOfFoundation(_ data: Data) -> Int {
        let body = try? JSONDecoder().decode(FewFields.self, from: data)
        return body?.unifiedReceipt.rows.count ?? -1
    }
}

/// The fields that a server needs at least to grant access.
private struct FewFields: Decodable {
    let type: String
    let environment: String
    let unifiedReceipt: Receipt

    struct Receipt: Decodable {
        let rows: [Row]

        enum CodingKeys: String, CodingKey {
            case rows = "latest_receipt_info"
        }
    }

    struct Row: Decodable {
        let transactionId: String
        let originalTransactionId: String
        let productId: String
        let purchaseDate: String
        let expiresDate: String?

        enum CodingKeys: String, CodingKey {
            case transactionId = "transaction_id"
            case originalTransactionId = "original_transaction_id"
            case productId = "product_id"
            case purchaseDate = "purchase_date_ms"
            case expiresDate = "expires_date_ms"
        }
    }

    enum CodingKeys: String, CodingKey {
        case type = "notification_type"
        case environment
        case unifiedReceipt = "unified_receipt"
    }
}

/// Microseconds per body, one value for each round.
private struct Rounds {
    private var microseconds: [Double] = []

    mutating func add(_ iterations: Int, _ work: () -> Int) {
        var rowCount = 0
        let duration = ContinuousClock().measure {
            for _ in 0..<iterations { rowCount += work() }
        }
        precondition(rowCount > 0, "a body was not decoded")
        let (seconds, attoseconds) = duration.components
        microseconds.append((Double(seconds) * 1e6 + Double(attoseconds) / 1e12) / Double(iterations))
        microseconds.sort()
    }

    var median: Double? { microseconds.isEmpty ? nil : microseconds[microseconds.count / 2] }

    var description: String? {
        guard let median, let least = microseconds.first, let most = microseconds.last else { return nil }
        return "median \(rounded(median)) us, \(rounded(least)) to \(rounded(most))"
    }
}

private func rounded(_ value: Double) -> String {
    String(format: "%.2f", value)
}
