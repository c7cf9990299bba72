import Foundation

extension EmbeddedServer {
    /// The configuration to connect to the server that another process runs in a folder; nil if none responds.
    package static func running(
        folder: String, superuser: String = "subledger", database: String
    ) async -> ConnectionConfiguration? {
        let run = folder + "/run"
        guard access(run + "/.s.PGSQL.5432", F_OK) == 0 else { return nil }
        let configuration = ConnectionConfiguration(socketFolder: run, user: superuser, database: database)
        // A folder of another user could contain a server of that user.
        guard (try? TrustedFolder(path: folder, account: ServerAccount.ifRoot())) != nil else { return nil }
        // The socket of a killed server remains, but does not respond.
        guard let connection = try? await PostgresConnection.connect(configuration, deadline: .now + .seconds(5))
        else { return nil }
        await connection.close()
        return configuration
    }

    /// Whether a server was ever started in the folder.
    package static func hasCluster(folder: String) -> Bool {
        access(folder + "/postgres", F_OK) == 0
    }
}
