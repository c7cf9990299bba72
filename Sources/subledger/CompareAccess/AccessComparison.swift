import Encoding
import EventLog
import Readers
import Server
import Subscriptions

/// Compares what another service answers about its customers with the answers of this log, at one instant.
struct AccessComparison {
    let customers: CustomerReader
    let app: String?
    let environment: Environment
    let at: Instant
    /// Ends that differ by at most this much are equal.
    let tolerance: Duration
    /// Differences beyond this number are counted, and not explained.
    let explainedMax: Int
    private(set) var summary = Summary()
    /// For customers whose rows are not adjacent.
    private var seen: Set<String> = []

    enum Difference: String, CaseIterable {
        /// Access here, and none there.
        case gains
        /// Access there, and none here.
        case loses
        /// Access in both, which ends later here.
        case later
        /// Access in both, which ends earlier here.
        case earlier
    }

    struct Summary {
        var customers = 0
        var compared = 0
        var differences: [Difference: Int] = [:]
        /// By difference and the decisive rule.
        var reasons: [String: Int] = [:]

        var different: Int { differences.values.reduce(0, +) }

        func line(at instant: Instant) -> String {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("at", instant)
                writer.member("customers", Int64(customers))
                writer.member("compared", Int64(compared))
                writer.member("same", Int64(compared - different))
                writer.member("gains", Int64(differences[.gains] ?? 0))
                writer.member("loses", Int64(differences[.loses] ?? 0))
                writer.member("later", Int64(differences[.later] ?? 0))
                writer.member("earlier", Int64(differences[.earlier] ?? 0))
                writer.key("reasons")
                writer.array(reasons.sorted { $0.key < $1.key }) { writer, reason in
                    writer.object { writer in
                        writer.member("reason", reason.key)
                        writer.member("count", Int64(reason.value))
                    }
                }
            }
            return writer.text
        }
    }

    private enum Limits {
        /// Customers of one query.
        static let batchCustomers = 1000
    }

    init(
        _ customers: CustomerReader, app: String?, environment: Environment, at instant: Instant, tolerance: Duration,
        explainedMax: Int
    ) {
        self.customers = customers
        self.app = app
        self.environment = environment
        at = instant
        self.tolerance = tolerance
        self.explainedMax = explainedMax
    }

    /// Prints a JSON line for each difference.
    mutating func run(_ name: String) async throws {
        var file = try AccessFile(name)
        let progress = ProgressReport("compare-access", unit: "customers")
        while true {
            let batch = try file.next(Limits.batchCustomers)
            guard !batch.isEmpty else { return }
            for customer in batch where !seen.insert(customer.id).inserted {
                throw CSVFile.Malformed(
                    description: "\(name):\(customer.line): the rows of a customer must follow each other: sort it")
            }
            try await compare(batch)
            let read = Double(max(1, file.offset))
            let total = file.bytesCount.map { Double(summary.customers) * Double($0) / read }
            progress.update(Int64(summary.customers), of: Int64(total ?? Double(summary.customers)))
        }
    }

    private mutating func compare(_ batch: [AccessFile.Customer]) async throws {
        let answers = try await customers.entitlements(
            batch.map { CustomerReader.Question(reference($0.id), at: at) })
        for (customer, answer) in zip(batch, answers) {
            summary.customers += 1
            var actual: [String: Instant] = [:]
            switch answer {
            case .found(let found):
                for entitlement in found.entitlements where entitlement.isActive(at: at) {
                    actual[entitlement.entitlement] = entitlement.until
                }
            case .unknown: break
            case .severalApps(let apps):
                throw CSVFile.Malformed(
                    description:
                        "several apps know a customer: choose one with --app (\(apps.joined(separator: ", ")))")
            case .severalKinds: throw CSVFile.Malformed(description: "an id of the file leads to different customers")
            }
            var expected: [String: AccessFile.Row] = [:]
            for row in customer.rows where expected[row.entitlement].map({ !$0.active && row.active }) ?? true {
                expected[row.entitlement] = row
            }
            for entitlement in Set(expected.keys).union(actual.keys).sorted() {
                summary.compared += 1
                let row = expected[entitlement]
                guard let difference = difference(row, actual[entitlement]) else { continue }
                try await report(difference, customer.id, entitlement, row, actual[entitlement])
            }
        }
    }

    private func difference(_ row: AccessFile.Row?, _ until: Instant?) -> Difference? {
        switch (row?.active ?? false, until) {
        case (false, nil): return nil
        case (false, _?): return .gains
        case (true, nil): return .loses
        case (true, let until?):
            guard let expected = row?.until, expected != until else { return nil }
            if expected < until {
                return expected.advanced(by: tolerance) < until ? .later : nil
            }
            return until.advanced(by: tolerance) < expected ? .earlier : nil
        }
    }

    private func reference(_ id: String) -> CustomerReader.Reference {
        CustomerReader.Reference(app: app, environment: environment, id: id, kind: nil)
    }

    private mutating func report(
        _ difference: Difference, _ customerId: String, _ entitlement: String, _ row: AccessFile.Row?,
        _ until: Instant?
    ) async throws {
        summary.differences[difference, default: 0] += 1
        var explanation: Explanation?
        var isExplained = false
        if summary.different <= explainedMax {
            isExplained = true
            let question = CustomerReader.Question(reference(customerId), at: at)
            if case .found(let explained) = try await customers.explanations(question, of: entitlement, knownAt: nil) {
                explanation = explained.explanations.first
            }
        }
        let reason = explanation?.because.first?.rule.rawValue ?? (isExplained ? "unknown_customer" : "not_explained")
        summary.reasons["\(difference.rawValue) \(reason)", default: 0] += 1
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("customerId", customerId)
            writer.member("entitlement", entitlement)
            writer.member("difference", difference.rawValue)
            writer.key("there")
            Self.write(row?.active ?? false, row?.until, isListed: row != nil, to: &writer)
            writer.key("here")
            Self.write(until != nil, until, isListed: true, to: &writer)
            writer.member("reason", reason)
            writer.member(
                "explanation", explanation?.sentence ?? (isExplained ? "No purchase of this customer is known." : nil))
        }
        print(writer.text)
    }

    private static func write(_ active: Bool, _ until: Instant?, isListed: Bool, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("active", active)
            if active, let until { writer.member("until", end: until) }
            if !isListed { writer.member("listed", false) }
        }
    }
}
