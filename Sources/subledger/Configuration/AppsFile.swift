import AppStore
import Foundation
import Subscriptions

/// The apps file: an array of
/// `{"bundleId": "com.example.app", "appAppleId": 1234567890, "environments": ["Production", "Sandbox"],
/// "sharedSecrets": ["…"], "acceptWithoutSecret": false}`. All but the bundle id may be left out.
enum AppsFile {
    private struct Entry: Decodable {
        let bundleId: String
        let appAppleId: Int64?
        let environments: [String]?
        let sharedSecrets: [String]?
        let acceptWithoutSecret: Bool?
    }

    static func read(_ path: String) throws(SettingError) -> [App] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw SettingError(description: "apps file \(path) cannot be read")
        }
        try refuseUnknownKeys(data, path)
        // The decoder's own error may quote the file, and the file holds secrets.
        guard let entries = try? JSONDecoder().decode([Entry].self, from: data) else {
            throw SettingError(
                description: "apps file \(path) is not a JSON array of {\"bundleId\": …, \"appAppleId\": …}")
        }
        var apps: [App] = []
        for entry in entries {
            guard !entry.bundleId.isEmpty else {
                throw SettingError(description: "apps file \(path) has an empty bundleId")
            }
            let secrets = entry.sharedSecrets ?? []
            try checkSecrets(secrets, "apps file \(path), app \(entry.bundleId)")
            apps.append(
                App(
                    bundleId: entry.bundleId, appAppleId: entry.appAppleId,
                    environments: try environments(entry.environments, "apps file \(path), app \(entry.bundleId)"),
                    sharedSecrets: secrets, acceptsWithoutSecret: entry.acceptWithoutSecret ?? false))
        }
        return apps
    }

    /// A misspelt key would otherwise be a setting that silently is not there.
    private static func refuseUnknownKeys(_ data: Data, _ path: String) throws(SettingError) {
        let known: Set = ["bundleId", "appAppleId", "environments", "sharedSecrets", "acceptWithoutSecret"]
        guard let entries = (try? JSONSerialization.jsonObject(with: data)) as? [[String: Any]] else { return }
        guard let unknown = entries.flatMap(\.keys).first(where: { !known.contains($0) }) else { return }
        if unknown == "products" {
            throw SettingError(
                description: """
                    apps file \(path): products are in the database, no longer here: take "products" out, and state \
                    them with `subledger product import`
                    """)
        }
        throw SettingError(description: "apps file \(path): there is no setting \"\(unknown)\"")
    }

    /// - Throws: A setting error that names the place, and never the secret.
    static func checkSecrets(_ secrets: [String], _ place: String) throws(SettingError) {
        guard secrets.allSatisfy({ $0.utf8.count >= App.sharedSecretBytesMin }) else {
            throw SettingError(
                description: "\(place): a shared secret is shorter than \(App.sharedSecretBytesMin) bytes: expected "
                    + "the 32 hexadecimal digits of App Store Connect")
        }
    }

    /// By Apple's names; nil is what every app takes.
    static func environments(_ names: [String]?, _ place: String) throws(SettingError) -> Set<Environment> {
        guard let names else { return App.usualEnvironments }
        var environments: Set<Environment> = []
        for name in names {
            guard let environment = Environment(v2Name: name) else {
                throw SettingError(
                    description: "\(place): environment \"\(name)\" is none of Production, Sandbox, Xcode, LocalTesting"
                )
            }
            environments.insert(environment)
        }
        return environments
    }
}
