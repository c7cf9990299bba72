import AppStore
import Foundation

/// The apps file: `[{"bundleId": "com.example.app", "sharedSecrets": ["…"]}]`.
enum AppsFile {
    private struct Entry: Decodable {
        let bundleId: String
        let sharedSecrets: [String]
    }

    static func read(_ path: String) throws(SettingError) -> [App] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw SettingError(description: "apps file \(path) cannot be read")
        }
        // The decoder's own error may quote the file, and the file holds secrets.
        guard let entries = try? JSONDecoder().decode([Entry].self, from: data) else {
            throw SettingError(
                description: "apps file \(path) is not a JSON array of {\"bundleId\": …, \"sharedSecrets\": [\"…\"]}")
        }
        for entry in entries {
            guard !entry.bundleId.isEmpty, entry.sharedSecrets.allSatisfy({ !$0.isEmpty }) else {
                throw SettingError(description: "apps file \(path) has an empty bundleId or shared secret")
            }
        }
        return entries.map { App(bundleId: $0.bundleId, sharedSecrets: $0.sharedSecrets) }
    }
}
