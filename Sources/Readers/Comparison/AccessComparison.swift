import Encoding
import EventLog
import Subscriptions

/// Compares what another service answers about its customers with the answers of this log, at one instant.
package struct AccessComparison {
    private let customers: CustomerReader
    private let app: String?
    private let environment: Environment
    private let at: Instant
    /// Ends that differ by at most this much are equal.
    private let tolerance: Duration
    /// Differences beyond this number are counted, and not explained.
    private let explainedMax: Int
    /// Nil for no limit.
    private let deadline: ContinuousClock.Instant?
    package private(set) var summary = Summary()
    /// For customers whose rows are not adjacent.
    private var seen: Set<String> = []

    package struct Summary: Sendable {
        package fileprivate(set) var customers = 0
        package fileprivate(set) var compared = 0
        package fileprivate(set) var differences: [AccessDifference.Kind: Int] = [:]
        /// By difference and the decisive rule.
        package fileprivate(set) var reasons: [Reason: Int] = [:]

        package var different: Int { differences.values.reduce(0, +) }

        package struct Reason: Sendable, Hashable {
            package let kind: AccessDifference.Kind
            package let rule: String
        }
    }

    /// An id of the file leads to more than one customer.
    package enum Ambiguous: Error {
        case severalApps([String])
        case severalKinds
    }

    /// The deadline has passed before the end of the file.
    package struct Late: Error {}

    /// - Parameters:
    ///   - app: Nil for any app.
    ///   - deadline: No customer is looked at after it; nil for no limit.
    package init(
        _ customers: CustomerReader, app: String?, environment: Environment, at instant: Instant, tolerance: Duration,
        explainedMax: Int, deadline: ContinuousClock.Instant? = nil
    ) {
        self.customers = customers
        self.app = app
        self.environment = environment
        at = instant
        self.tolerance = tolerance
        self.explainedMax = explainedMax
        self.deadline = deadline
    }

    /// Compares the next customers of a file, and returns what differs; nil at its end.
    ///
    /// - Throws: ``CSVRecords/Malformed``, ``Ambiguous``, ``Late``, ``ReadError``, and what reading the file throws.
    package mutating func next(of file: inout AccessFile) async throws -> [AccessDifference]? {
        let batch = try file.next(Limits.comparedCustomers)
        guard !batch.isEmpty else { return nil }
        try checkDeadline()
        for customer in batch where !seen.insert(customer.id).inserted {
            throw CSVRecords.Malformed(
                line: customer.line, problem: "the rows of a customer must follow each other: sort it")
        }
        let answers = try await customers.entitlements(
            batch.map { CustomerReader.Question(reference($0.id), at: at) })
        var differences: [AccessDifference] = []
        for (customer, answer) in zip(batch, answers) {
            try checkDeadline()
            differences += try await compare(customer, try active(answer))
        }
        return differences
    }

    private func checkDeadline() throws(Late) {
        if let deadline, .now >= deadline { throw Late() }
    }

    /// The ends of the access that a customer has here, by entitlement.
    private func active(_ answer: CustomerReader.Answer<CustomerReader.Found>) throws -> [String: Instant] {
        switch answer {
        case .found(let found):
            var active: [String: Instant] = [:]
            for entitlement in found.entitlements where entitlement.isActive(at: at) {
                active[entitlement.entitlement] = entitlement.until
            }
            return active
        case .unknown: return [:]
        case .severalApps(let apps): throw Ambiguous.severalApps(apps)
        case .severalKinds: throw Ambiguous.severalKinds
        }
    }

    private mutating func compare(
        _ customer: AccessFile.Customer, _ actual: [String: Instant]
    ) async throws -> [AccessDifference] {
        summary.customers += 1
        var expected: [String: AccessFile.Row] = [:]
        for row in customer.rows where expected[row.entitlement].map({ !$0.active && row.active }) ?? true {
            expected[row.entitlement] = row
        }
        var differences: [AccessDifference] = []
        for entitlement in Set(expected.keys).union(actual.keys).sorted() {
            summary.compared += 1
            let (row, until) = (expected[entitlement], actual[entitlement])
            guard let kind = difference(row, until) else { continue }
            differences.append(try await explained(kind, customer.id, entitlement, row, until))
        }
        return differences
    }

    private func difference(_ row: AccessFile.Row?, _ until: Instant?) -> AccessDifference.Kind? {
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
        CustomerReader.Reference(app: app, environment: environment, id: id)
    }

    private mutating func explained(
        _ kind: AccessDifference.Kind, _ customerId: String, _ entitlement: String, _ row: AccessFile.Row?,
        _ until: Instant?
    ) async throws -> AccessDifference {
        summary.differences[kind, default: 0] += 1
        var explanation: Explanation?
        let isExplained = summary.different <= explainedMax
        if isExplained {
            let question = CustomerReader.Question(reference(customerId), at: at)
            if case .found(let explained) = try await customers.explanations(question, of: entitlement, knownAt: nil) {
                explanation = explained.explanations.first
            }
        }
        let reason =
            explanation?.because.first?.rule.rawValue
            ?? (isExplained ? AccessDifference.unknownCustomer : AccessDifference.notExplained)
        summary.reasons[Summary.Reason(kind: kind, rule: reason), default: 0] += 1
        return AccessDifference(
            customerId: customerId, entitlement: entitlement, kind: kind, there: row, here: until, reason: reason,
            explanation: explanation?.sentence ?? (isExplained ? "No purchase of this customer is known." : nil))
    }
}
