import AppStore
import Encoding
import Synchronization
import TestSupport

extension RevocationLimits {
    /// Tests of other behaviour should not fail on a slow machine.
    static var patient: RevocationLimits {
        var limits = RevocationLimits()
        limits.checkWaitMax = .seconds(60)
        limits.answerWaitMax = .seconds(60)
        return limits
    }
}

/// A checker with its responder, a clock that a test sets, and the reported verdicts.
struct RevocationBundle {
    let certificates: RevocationChain
    let responder: RevocationResponder
    let checker: RevocationChecker
    let clock = TestClock()
    let reports = Reports()

    /// - Parameter change: Changes the default limits.
    init(
        _ certificates: RevocationChain? = nil, mode: RevocationMode = .required,
        _ change: (inout RevocationLimits) -> Void = { _ in }
    ) throws {
        var limits = RevocationLimits.patient
        change(&limits)
        self.certificates = try certificates ?? RevocationChain()
        responder = RevocationResponder(self.certificates)
        checker = RevocationChecker(
            mode: mode, transport: responder, limits: limits, now: { [clock] in clock.now },
            onVerdict: { [reports] id, verdict, instant in reports.add(id, verdict, instant) })
    }

    func verdict(_ number: UInt8 = 1) async -> RevocationVerdict {
        await checker.verdict(of: certificates.chain(number))
    }

    /// The verdict, after its check has finished completely.
    func settled(_ number: UInt8 = 1) async throws -> RevocationVerdict {
        let verdict = await verdict(number)
        try await idle()
        return verdict
    }

    func known(_ number: UInt8 = 1) -> RevocationVerdict? {
        checker.knownVerdict(of: certificates.chain(number))
    }

    /// Waits until this many verdicts are reported.
    func reported(_ count: Int) async throws -> [RevocationVerdict] {
        try await eventually("\(count) verdicts are reported") {
            let verdicts = reports.verdicts
            return verdicts.count >= count ? verdicts : nil
        }
    }

    /// Waits until no check is running.
    func idle() async throws {
        _ = try await eventually("all checks end") { checker.isIdle ? true : nil }
    }

    /// Waits until this many requests are unanswered.
    func waiting(_ count: Int) async throws {
        _ = try await eventually("\(count) requests wait") { responder.waiting == count ? true : nil }
    }
}

final class TestClock: Sendable {
    private let instant = Mutex(day("2026-01-01"))

    var now: Instant { instant.withLock { $0 } }

    func advance(seconds: Int64) {
        instant.withLock { $0 = $0.advanced(byMilliseconds: seconds * 1000) }
    }
}

final class Reports: Sendable {
    private let all = Mutex<[(id: ChainID, verdict: RevocationVerdict, at: Instant)]>([])

    var verdicts: [RevocationVerdict] { all.withLock { $0.map(\.verdict) } }
    var instants: [Instant] { all.withLock { $0.map(\.at) } }

    func add(_ id: ChainID, _ verdict: RevocationVerdict, _ instant: Instant) {
        all.withLock { $0.append((id, verdict, instant)) }
    }
}
