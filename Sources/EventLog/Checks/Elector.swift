import Foundation
import Metrics
import Postgres

/// Decides which process does which work for which streams, by leases in the database. A process has one.
///
/// A lease is a row that only role subledger_poller may write or lock, so no session of another role can keep it from
/// being taken. It lasts ``Limits/leaseTime``, and its holder renews it. If the process dies, another one takes the lease
/// when it has run out. A holder that was frozen for that long, or cannot reach the database, no longer leads by its own
/// clock; until it notices, two processes may ask a store the same, which costs a call and changes nothing.
package actor Elector {
    private struct Lease: Hashable {
        let work: StreamLeadership.Work
        let stream: Int32
    }

    private let configuration: ConnectionConfiguration
    private let now: @Sendable () -> ContinuousClock.Instant
    private let holder: String
    private var connection: PostgresConnection?
    /// Until when each lease is held, by this process's clock.
    private var held: [Lease: ContinuousClock.Instant] = [:]
    /// The streams that this process would lead.
    private var wanted: [StreamLeadership.Work: Set<Int32>] = [:]
    /// The work that this process would do, with the instant when the database last said who leads it.
    private var answered: [StreamLeadership.Work: ContinuousClock.Instant] = [:]
    /// The last request that was begun; each waits for the one before, since they share the session.
    private var last: Task<Void, Never>?

    /// - Parameters:
    ///   - configuration: Of role subledger_poller, or the owner.
    ///   - holder: Electors with the same one hold the same leases.
    package init(
        _ configuration: ConnectionConfiguration, holder: String = UUID().uuidString.lowercased(),
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.configuration = configuration
        self.holder = holder
        self.now = now
    }

    /// Takes the lease of those of the streams that no other process leads, and renews those that are held.
    ///
    /// - Returns: Those of the streams that this process leads now.
    func lead(_ streams: [Int32], for work: StreamLeadership.Work) async throws(ReadError) -> Set<Int32> {
        guard !streams.isEmpty else { return [] }
        wanted[work, default: []].formUnion(streams)
        let leases = streams.map { Lease(work: work, stream: $0) }
        try await take(leases)
        return Set(leases.filter { isHeld($0) }.map(\.stream))
    }

    /// Renews the leases of all work, and takes those that have run out.
    package func keep() async throws(ReadError) {
        let all = wanted.flatMap { work, streams in streams.map { Lease(work: work, stream: $0) } }
        try await take(all)
    }

    private func take(_ leases: [Lease]) async throws(ReadError) {
        let work = Set(leases.map(\.work))
        for work in work where answered[work] == nil { answered[work] = now() }
        // A lease that was just renewed needs no question.
        let renewal = now() + Limits.leaseTime - Limits.leaseRenewalPause
        guard !leases.allSatisfy({ held[$0].map { $0 > renewal } ?? false }) else { return }
        defer { for work in work { recordLead(of: work) } }
        try await inTurn { (elector) async throws(PostgresError) in try await elector.ask(for: leases) }
        for work in work where wanted[work] != nil { answered[work] = now() }
    }

    /// Leaves all streams of the work to others. When this returns, they can be led.
    func release(_ work: StreamLeadership.Work) async {
        answered[work] = nil
        wanted[work] = nil
        try? await inTurn { (elector) async throws(PostgresError) in try await elector.leave(work) }
        recordLead(of: work)
        if answered.isEmpty {
            let ended = connection
            connection = nil
            await ended?.close()
        }
    }

    /// The work whose leader this process could not determine for longer than ``Limits/unledTimeMax``, and for how long. If
    /// every process fails in this way, the work is not done.
    package func unled() -> [(work: StreamLeadership.Work, time: Duration)] {
        let now = now()
        return answered.filter { now - $0.value > Limits.unledTimeMax }.map { ($0.key, now - $0.value) }
            .sorted { $0.work.rawValue < $1.work.rawValue }
    }

    /// The value of a process that has not asked for a lease yet: it leaves no work undone.
    static func recordNoWork(_ work: StreamLeadership.Work) { gauge(of: work).record(1) }

    private func recordLead(of work: StreamLeadership.Work) {
        Self.gauge(of: work).record(held.contains { $0.key.work == work && $0.value > now() } ? 1 : 0)
    }

    private static func gauge(of work: StreamLeadership.Work) -> Gauge {
        Gauge(label: "subledger_work_leads", dimensions: [("work", work.rawValue)])
    }

    private func isHeld(_ lease: Lease) -> Bool { held[lease].map { $0 > now() } ?? false }

    /// Runs the body after those of earlier calls, and once more if the session had ended.
    private func inTurn(
        _ body: @escaping @Sendable (isolated Elector) async throws(PostgresError) -> Void
    ) async throws(ReadError) {
        let previous = last
        let next = Task { () async -> Result<Void, PostgresError> in
            await previous?.value
            var outcome: Result<Void, PostgresError> = .success(())
            for _ in 0..<2 {
                do throws(PostgresError) {
                    try await body(self)
                    return .success(())
                } catch {
                    outcome = .failure(error)
                    let ended = connection
                    connection = nil
                    await ended?.close()
                }
            }
            return outcome
        }
        last = Task { _ = await next.value }
        if case .failure(let error) = await next.value { throw ReadError(error) }
    }

    private func ask(for leases: [Lease]) async throws(PostgresError) {
        // Before the database's clock is read, so that the lease never lasts longer by this clock than by that one.
        let until = now() + Limits.leaseTime
        let rows = try await session().query(
            Statements.take,
            [
                .array(leases.map(\.work.rawValue)), .array(leases.map(\.stream)), Parameter(holder),
                Parameter(Limits.leaseTime.components.seconds),
            ], deadline: .now + Limits.readWaitMax)
        for lease in leases { held[lease] = nil }
        for row in rows {
            guard let work = StreamLeadership.Work(rawValue: try row.value(at: 0)) else { continue }
            held[Lease(work: work, stream: try row.value(at: 1))] = until
        }
    }

    private func leave(_ work: StreamLeadership.Work) async throws(PostgresError) {
        guard held.keys.contains(where: { $0.work == work }) else { return }
        _ = try await session().query(
            Statements.leave, [Parameter(work.rawValue), Parameter(holder)], deadline: .now + Limits.readWaitMax)
        held = held.filter { $0.key.work != work }
    }

    private func session() async throws(PostgresError) -> PostgresConnection {
        if let connection { return connection }
        let connection = try await PostgresConnection.connect(configuration, deadline: .now + Limits.readWaitMax)
        self.connection = connection
        return connection
    }

    private enum Statements {
        /// A lease of another process is not even locked. In one order, so that two processes never wait for each
        /// other.
        static let take = Statement(
            "lease_take",
            """
            insert into subledger.lease as lease (work, stream_id, holder, until)
            select input.work, input.stream_id, $3, clock_timestamp() + make_interval(secs => $4)
            from unnest($1::text[], $2::integer[]) as input (work, stream_id)
            where not exists (
              select
              from subledger.lease as other
              where other.work = input.work
                and other.stream_id = input.stream_id
                and other.holder <> $3
                and other.until > clock_timestamp()
            )
            order by input.work, input.stream_id
            on conflict (work, stream_id) do update
            set holder = excluded.holder, until = excluded.until
            where lease.holder = excluded.holder or lease.until <= clock_timestamp()
            returning lease.work, lease.stream_id
            """)

        static let leave = Statement(
            "lease_leave",
            """
            update subledger.lease
            set until = clock_timestamp()
            where work = $1
              and holder = $2
              and until > clock_timestamp()
            """)
    }
}
