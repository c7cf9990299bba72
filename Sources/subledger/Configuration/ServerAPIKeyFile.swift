import AppStore
import Foundation
import Postgres

/// The file with the private key of the App Store Server API, as App Store Connect gives it once (`.p8`).
enum ServerAPIKeyFile {
    /// - Parameters:
    ///   - name: Relative to the folder of the apps file.
    ///   - appsFile: The apps file that names it.
    ///   - place: Names the app, for errors.
    /// - Throws: A setting error that quotes nothing from the file.
    static func read(
        _ name: String, besides appsFile: String, issuerId: String, keyId: String, _ place: String
    ) throws(SettingError) -> ServerAPIKey {
        let folder = URL(fileURLWithPath: appsFile).deletingLastPathComponent()
        let path = URL(fileURLWithPath: name, relativeTo: folder).path
        guard let data = FileManager.default.contents(atPath: path) else {
            guard access(path, R_OK) != 0, errno == EACCES else {
                throw SettingError(description: "\(place): cannot read key file \(path)")
            }
            let user = ServerAccount.name(of: geteuid())
            throw SettingError(
                description: "\(place): user \(user) cannot read key file \(path): make \(user) its owner")
        }
        guard isPrivate(path) else {
            throw SettingError(
                description: "\(place): key file \(path) can be read by others: remove their rights with chmod 600")
        }
        do throws(ServerAPIKey.Problem) {
            return try ServerAPIKey(issuerId: issuerId, keyId: keyId, pem: String(decoding: data, as: UTF8.self))
        } catch {
            throw SettingError(description: "\(place): key file \(path): \(error)")
        }
    }

    /// Whether only this user and root have rights to the file. The group of a file of root may read it: that is how service
    /// managers and container platforms pass secrets. PostgreSQL has the same rule for its key.
    private static func isPrivate(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        return status.st_mode & (status.st_uid == 0 ? 0o037 : 0o077) == 0
    }
}
