import Foundation

extension EmbeddedServer {
    /// How to connect to the server that another process runs in a folder; nil if none answers there.
    package static func running(
        folder: String, superuser: String = "subledger", database: String
    ) async -> ConnectionConfiguration? {
        let run = folder + "/run"
        guard access(run + "/.s.PGSQL.5432", F_OK) == 0 else { return nil }
        let configuration = ConnectionConfiguration(socketFolder: run, user: superuser, database: database)
        // Another user's folder could hold another user's server.
        guard (try? TrustedFolder(path: folder, account: ServerAccount.ifRoot())) != nil else { return nil }
        // What a killed server has left does not answer.
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
