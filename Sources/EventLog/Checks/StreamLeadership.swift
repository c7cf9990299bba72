import Postgres

/// One kind of work of an ``Elector``: which of its streams this process leads.
package struct StreamLeadership: Sendable {
    package enum Work: String, Sendable, CaseIterable {
        case checks, audits, refunds, backfills, google, voids, endpoints
    }

    private let elector: Elector
    private let work: Work

    package init(_ elector: Elector, for work: Work = .checks) {
        self.elector = elector
        self.work = work
        // A rule that looks for work without a leader needs the series from the start.
        Elector.recordNoWork(work)
    }

    /// Takes the lead of those of the streams that no other process leads.
    ///
    /// - Returns: Those of the streams that this process leads now.
    package func lead(_ streams: [Int32]) async throws(ReadError) -> Set<Int32> {
        try await elector.lead(streams, for: work)
    }

    /// Takes the lead of work that one process does for all streams, unless another one has it.
    ///
    /// - Returns: Whether this process leads now.
    package func leads() async throws(ReadError) -> Bool { try await !lead([0]).isEmpty }

    /// Reports that this process is alive, and takes the lead of those of its streams that no process leads any more, for all
    /// work of the elector.
    package func keep() async throws(ReadError) {
        try await elector.keep()
    }

    /// Leaves all streams to others. When this returns, they can be led.
    package func release() async {
        await elector.release(work)
    }
}
