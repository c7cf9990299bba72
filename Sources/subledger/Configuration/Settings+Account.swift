import Foundation
import Logging
import Postgres

extension Settings {
    /// As root, makes the data folder ready and runs this command again as the service account. Returns if we are not
    /// root.
    ///
    /// - Throws: ``EmbeddedServerError``.
    func leaveRoot(logger: Logger) throws(EmbeddedServerError) {
        guard let account = try ServerAccount.ifRoot() else { return }
        if !account.isOwn {
            logger.notice(
                "there is no system user subledger, the server runs as another one",
                metadata: ["user": "\(account.name)"])
        }
        // Its default is another one for the account.
        let folder = dataFolder
        if databaseURL == nil { try account.prepare(dataFolder: folder) }
        try account.takeOver(environment: ["SUBLEDGER_DATA_FOLDER": folder])
    }

    /// Files that root may read are not always the service account's to read.
    func checkFilesAreReadable() throws(SettingError) {
        let tls = [try publicTLS(), try privateTLS()].compactMap(\.self).flatMap { [$0.certificate, $0.key] }
        for file in [appsFile].compactMap(\.self) + rootFiles + tls where access(file, R_OK) != 0 && errno == EACCES {
            throw SettingError(
                description: "the user \(ServerAccount.name(of: geteuid())) may not read \(file): let it read the file")
        }
    }
}
