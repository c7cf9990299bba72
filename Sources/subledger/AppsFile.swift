import AppStore
import Foundation
import Subscriptions

/// An app with what is known of its products.
struct ConfiguredApp {
    let app: App
    let products: ProductCatalog
}

extension [ConfiguredApp] {
    /// By bundle id.
    var products: [String: ProductCatalog] {
        Dictionary(uniqueKeysWithValues: map { ($0.app.bundleId, $0.products) })
    }
}

/// The apps file: an array of
/// `{"bundleId": "com.example.app", "appAppleId": 1234567890, "environments": ["Production", "Sandbox"],
/// "sharedSecrets": ["…"], "acceptWithoutSecret": false, "products": {…}}`, with products by their ids:
/// `{"kind": "non-renewing", "duration": "P3M"}`. All but the bundle id may be left out.
enum AppsFile {
    private struct Entry: Decodable {
        let bundleId: String
        let appAppleId: Int64?
        let environments: [String]?
        let sharedSecrets: [String]?
        let acceptWithoutSecret: Bool?
        let products: [String: Product]?
    }

    private struct Product: Decodable {
        let kind: String
        let duration: String?
    }

    static func read(_ path: String) throws(SettingError) -> [ConfiguredApp] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw SettingError(description: "apps file \(path) cannot be read")
        }
        try refuseUnknownKeys(data, path)
        // The decoder's own error may quote the file, and the file holds secrets.
        guard let entries = try? JSONDecoder().decode([Entry].self, from: data) else {
            throw SettingError(
                description: "apps file \(path) is not a JSON array of {\"bundleId\": …, \"appAppleId\": …}")
        }
        var apps: [ConfiguredApp] = []
        for entry in entries {
            let secrets = entry.sharedSecrets ?? []
            guard !entry.bundleId.isEmpty, secrets.allSatisfy({ !$0.isEmpty }) else {
                throw SettingError(description: "apps file \(path) has an empty bundleId or shared secret")
            }
            let app = App(
                bundleId: entry.bundleId, appAppleId: entry.appAppleId,
                environments: try environments(entry.environments, "apps file \(path), app \(entry.bundleId)"),
                sharedSecrets: secrets, acceptsWithoutSecret: entry.acceptWithoutSecret ?? false)
            apps.append(ConfiguredApp(app: app, products: try catalog(entry.products ?? [:], path)))
        }
        return apps
    }

    /// A misspelt key would otherwise be a setting that silently is not there.
    private static func refuseUnknownKeys(_ data: Data, _ path: String) throws(SettingError) {
        let known: Set = [
            "bundleId", "appAppleId", "environments", "sharedSecrets", "acceptWithoutSecret", "products",
        ]
        let knownOfProduct: Set = ["kind", "duration"]
        guard let entries = (try? JSONSerialization.jsonObject(with: data)) as? [[String: Any]] else { return }
        let products = entries.compactMap { $0["products"] as? [String: [String: Any]] }.flatMap(\.values)
        let unknown =
            entries.flatMap(\.keys).first { !known.contains($0) }
            ?? products.flatMap(\.keys).first { !knownOfProduct.contains($0) }
        if let unknown { throw SettingError(description: "apps file \(path): there is no setting \"\(unknown)\"") }
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

    private static func catalog(_ products: [String: Product], _ path: String) throws(SettingError) -> ProductCatalog {
        var kinds: [String: ProductCatalog.Kind] = [:]
        for (id, product) in products {
            let duration = product.duration.flatMap { CalendarDuration(iso8601: $0) }
            guard !id.isEmpty, id.unicodeScalars.allSatisfy({ $0.value >= 0x20 }),
                (duration == nil) == (product.duration == nil),
                let kind = ProductCatalog.Kind(name: product.kind, duration: duration)
            else {
                throw SettingError(
                    description: """
                        apps file \(path), product \(id): kind must be auto-renewable, consumable, non-consumable, or \
                        non-renewing with a duration such as P3M
                        """)
            }
            kinds[id] = kind
        }
        return ProductCatalog(kinds)
    }
}
