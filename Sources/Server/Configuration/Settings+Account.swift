import Foundation
import Logging
import Postgres

extension Settings {
    /// If the process runs as root, prepares the data folder and runs this command again as the service account.
    /// Otherwise returns.
    ///
    /// - Throws: ``EmbeddedServerError``, ``SettingError``.
    package func leaveRoot(logger: Logger) throws {
        guard let account = try ServerAccount.ifRoot() else { return }
        if !account.isOwn {
            logger.notice(
                "no system user subledger; running as another user",
                metadata: ["user": "\(account.name)"])
        }
        // The default folder of the account differs from root's.
        let folder = dataFolder
        if try databaseURL() == nil { try account.prepare(dataFolder: folder) }
        try account.takeOver(environment: ["SUBLEDGER_DATA_FOLDER": folder])
    }

    /// Checks that this process can read the configured files. The service account may lack access to files that root
    /// can read.
    package func checkFilesAreReadable() throws(SettingError) {
        let tls = [try publicTLS(), try privateTLS()].compactMap(\.self).flatMap { [$0.certificate, $0.key] }
        let files = [appsFile, databaseURLFile, configuredHeadKey].compactMap(\.self) + rootFiles + tls
        for file in files where access(file, R_OK) != 0 && errno == EACCES {
            throw SettingError(
                description: "user \(ServerAccount.name(of: geteuid())) cannot read \(file): grant read permission")
        }
    }
}
