import AppStore
import Foundation

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
        let (path, data) = try SecretFile.read(name, besides: appsFile, "key file", place)
        do throws(ServerAPIKey.Problem) {
            return try ServerAPIKey(issuerId: issuerId, keyId: keyId, pem: String(decoding: data, as: UTF8.self))
        } catch {
            throw SettingError(description: "\(place): key file \(path): \(error)")
        }
    }
}
