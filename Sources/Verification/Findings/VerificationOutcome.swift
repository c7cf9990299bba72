/// What a verification checked, and every bad event; of the other tables, the first bad row of each stream.
package struct VerificationOutcome: Sendable {
    /// The first ``findingsMax`` findings, in the order of streams and positions. Empty if everything is valid.
    package private(set) var findings: [Finding] = []
    /// How many findings there are beyond those.
    package private(set) var further = 0
    /// Nil if everything is valid.
    package var finding: Finding? { findings.first }
    /// How many findings there are.
    var total: Int { findings.count + further }
    package var streams = 0
    package var events: Int64 = 0
    /// How many more events were verified by an earlier run, and not again.
    package var verifiedBefore: Int64 = 0
    /// How many of the events have no body because an operator erased it. Their digests were checked, and nothing else.
    package var erased: Int64 = 0
    /// How many of the bodies are in archive files.
    package var archived: Int64 = 0
    /// How many of the bodies were not checked, since their archive files could not be read.
    package var unread: Int64 = 0
    package var subscriptions: Int64 = 0

    /// More say nothing that a person could use, and a damaged table would have millions.
    static let findingsMax = 10_000

    package init() {}

    mutating func add(_ finding: Finding?) {
        guard let finding else { return }
        guard findings.count < Self.findingsMax else {
            further += 1
            return
        }
        findings.append(finding)
    }
}
