import Foundation
import Postgres

/// A file with a secret that the apps file names.
enum SecretFile {
    /// - Parameters:
    ///   - name: Relative to the folder of the apps file.
    ///   - appsFile: The apps file that names it.
    ///   - kind: What it is, for errors.
    ///   - place: Names the app, for errors.
    /// - Throws: A setting error that quotes nothing from the file.
    static func read(
        _ name: String, besides appsFile: String, _ kind: String, _ place: String
    ) throws(SettingError) -> (path: String, data: Data) {
        let folder = URL(fileURLWithPath: appsFile).deletingLastPathComponent()
        let path = URL(fileURLWithPath: name, relativeTo: folder).path
        guard let data = FileManager.default.contents(atPath: path) else {
            guard access(path, R_OK) != 0, errno == EACCES else {
                throw SettingError(description: "\(place): cannot read \(kind) \(path)")
            }
            let user = ServerAccount.name(of: geteuid())
            throw SettingError(
                description: "\(place): user \(user) cannot read \(kind) \(path): make \(user) its owner")
        }
        guard isPrivate(path) else {
            throw SettingError(
                description: "\(place): \(kind) \(path) can be read by others: remove their rights with chmod 600")
        }
        return (path, data)
    }

    /// Whether only this user and root have rights to the file. The group of a file of root may read it: that is how service
    /// managers and container platforms pass secrets. PostgreSQL has the same rule for its key.
    private static func isPrivate(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        return status.st_mode & (status.st_uid == 0 ? 0o037 : 0o077) == 0
    }
}
