import AppStore
import EventLog
import Logging
import Postgres

/// What verifies signatures of notifications and of signed data of devices, with the revocation checks of their
/// certificates.
struct VerifierServices {
    let verifier: NotificationVerifier
    let revocation: RevocationService
    /// Few verdicts are written, so health checks use the connection as well.
    let pool: PostgresPool

    struct Settings {
        let apps: [App]
        let roots: RootCertificates
        let revocationMode: RevocationMode
    }

    init(_ settings: Settings, database: Database, logger: Logger) async throws {
        let pool = database.pool(for: .verifying, logger: logger)
        self.pool = pool
        let verdicts = VerdictLog(pool: pool)
        revocation = RevocationService(
            mode: settings.revocationMode,
            revoked: try await database.stoppingOnError { try await verdicts.revoked() },
            verdicts: verdicts, logger: logger)
        verifier = NotificationVerifier(
            apps: Apps(settings.apps), signatures: SignatureVerifier(roots: settings.roots),
            revocation: revocation.checker)
    }
}
