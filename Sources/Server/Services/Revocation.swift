import AppStore
import Encoding
import EventLog
import Logging
import Metrics
import Postgres
import ServiceLifecycle

/// Checks certificates for revocation while the server runs.
struct RevocationService: Service {
    let checker: RevocationChecker
    private let client: OCSPClient

    /// - Parameter revoked: The revoked chains that earlier runs found.
    init(
        mode: RevocationMode, revoked: [(chain: [UInt8], decidedAt: Instant)], verdicts: VerdictLog, logger: Logger
    ) {
        client = OCSPClient()
        let limits = RevocationLimits()
        checker = RevocationChecker(
            mode: mode, transport: client, limits: limits, now: SystemClock.now,
            onVerdict: { chain, verdict, decidedAt in await Self.report(chain, verdict, decidedAt, verdicts, logger) },
            onResponses: { responses, answeredAt in
                let nextCheckAt = answeredAt.advanced(byMilliseconds: Int64(limits.answerHolds / .milliseconds(1)))
                await Self.store(responses, answeredAt, nextCheckAt: nextCheckAt, verdicts, logger)
            })
        for verdict in RevocationVerdict.allCases { Self.counter(verdict).increment(by: 0) }
        checker.restore(
            revoked: Dictionary(revoked.map { (ChainID(sha256: $0.chain), $0.decidedAt) }, uniquingKeysWith: max))
    }

    func run() async throws {
        try? await gracefulShutdown()
        // A separate task, which a cancellation of this one does not interrupt.
        await Task { [checker, client] in
            await checker.stop()
            await client.shutDown()
        }.value
    }

    private static func report(
        _ chain: ChainID, _ verdict: RevocationVerdict, _ decidedAt: Instant, _ verdicts: VerdictLog, _ logger: Logger
    ) async {
        counter(verdict).increment()
        let metadata: Logger.Metadata = ["chain.id": "\(Hex.text(chain.sha256))"]
        switch verdict {
        case .good: logger.info("signing certificates not revoked", metadata: metadata)
        case .unknown:
            logger.notice("OCSP status unknown", metadata: metadata)
        case .revoked:
            logger.critical("signing certificate revoked; rejecting notifications", metadata: metadata)
        }
        do throws(PostgresError) {
            try await verdicts.write(chain: chain.sha256, verdict: verdict.rawValue, decidedAt: decidedAt)
        } catch {
            logger.warning("revocation verdict not stored", metadata: ["db.error": "\(error.label)"])
        }
    }

    private static func store(
        _ responses: [VerifiedOCSPResponse], _ answeredAt: Instant, nextCheckAt: Instant, _ verdicts: VerdictLog,
        _ logger: Logger
    ) async {
        for response in responses {
            let row = OCSPResponseRow(
                certificateSHA256: response.certificateSHA256, status: response.status.rawValue,
                thisUpdate: response.thisUpdate, nextUpdate: response.nextUpdate, answeredAt: answeredAt,
                bytes: response.bytes)
            do throws(PostgresError) {
                try await verdicts.write(row, nextCheckAt: nextCheckAt)
            } catch {
                logger.warning("OCSP response not stored", metadata: ["db.error": "\(error.label)"])
            }
        }
    }

    private static func counter(_ verdict: RevocationVerdict) -> Counter {
        Counter(label: "subledger_chain_verdicts_total", dimensions: [("verdict", verdict.rawValue)])
    }
}
