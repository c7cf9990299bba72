import AppStore
import EventLog
import Logging
import Metrics
import Postgres
import ServiceLifecycle
import Subscriptions

/// Asks about the revocation of certificates while the server runs.
struct RevocationService: Service {
    let checker: RevocationChecker
    private let client: OCSPClient

    /// - Parameter revoked: What was known before this start.
    init(
        mode: RevocationMode, revoked: [(chain: [UInt8], decidedAt: Instant)], verdicts: VerdictLog, logger: Logger
    ) {
        client = OCSPClient()
        checker = RevocationChecker(mode: mode, transport: client, now: Clock.now) { chain, verdict, decidedAt in
            await Self.report(chain, verdict, decidedAt, verdicts, logger)
        }
        for verdict in RevocationVerdict.allCases { Self.counter(verdict).increment(by: 0) }
        checker.restore(
            revoked: Dictionary(revoked.map { (ChainID(sha256: $0.chain), $0.decidedAt) }, uniquingKeysWith: max))
    }

    func run() async throws {
        try? await gracefulShutdown()
        // Not cut short by the cancellation that may have led here.
        await Task { [checker, client] in
            await checker.stop()
            await client.shutDown()
        }.value
    }

    private static func report(
        _ chain: ChainID, _ verdict: RevocationVerdict, _ decidedAt: Instant, _ verdicts: VerdictLog, _ logger: Logger
    ) async {
        counter(verdict).increment()
        let metadata: Logger.Metadata = ["chain.id": "\(DedupeKey(bytes: chain.sha256).hexadecimal)"]
        switch verdict {
        case .good: logger.info("certificates of signed notifications are not revoked", metadata: metadata)
        case .unknown:
            logger.notice(
                "nobody could say whether certificates of signed notifications are revoked", metadata: metadata)
        case .revoked:
            logger.critical(
                "CERTIFICATES OF SIGNED NOTIFICATIONS WERE REVOKED: what they sign is refused from now on",
                metadata: metadata)
        }
        do throws(PostgresError) {
            try await verdicts.write(chain: chain.sha256, verdict: verdict.rawValue, decidedAt: decidedAt)
        } catch {
            logger.warning("the verdict on certificates was not stored", metadata: ["db.error": "\(error.label)"])
        }
    }

    private static func counter(_ verdict: RevocationVerdict) -> Counter {
        Counter(label: "subledger_chain_verdicts_total", dimensions: [("verdict", verdict.rawValue)])
    }
}
