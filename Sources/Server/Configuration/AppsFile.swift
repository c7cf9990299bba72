import AppStore
import Encoding
import Foundation
import HTTPServer
import StoreClient
import Subscriptions

/// The apps file: an array of
/// `{"bundleId": "com.example.app", "appAppleId": 1234567890, "environments": ["Production", "Sandbox"],
/// "sharedSecrets": ["…"], "acceptWithoutSecret": false, "ownership": "latest-buyer", "maxStoreAccountsPerToken": 10,
/// "checkLead": "PT6H", "listeningSince": "2026-11-27T08:00:00Z", "receipts": {"callsPerMinute": 300, "concurrency": 8,
/// "polling": true}, "serverAPI": {"issuerId": "…", "keyId": "…", "keyFile": "SubscriptionKey.p8"}, "forward": […]}`. Only
/// the bundle id is required. An object with `packageName` is an app of Google Play, see ``GoogleAppEntry``. Both may have
/// the member of ``AssertionEntry``; ``ForwardEntries`` reads `forward`.
enum AppsFile {
    /// The apps of both stores.
    struct Content {
        var apple: [App] = []
        var google: [GoogleApp] = []
        /// By app: the keys of assertions about its users.
        var assertions: [String: AssertionKeys] = [:]
    }

    private struct Entry: Decodable {
        let bundleId: String
        let appAppleId: Int64?
        let environments: [String]?
        let sharedSecrets: [String]?
        let acceptWithoutSecret: Bool?
        let ownership: String?
        let maxStoreAccountsPerToken: Int?
        let checkLead: String?
        let listeningSince: String?
        let receipts: Receipts?
        let serverAPI: ServerAPI?
    }

    private struct ServerAPI: Decodable {
        let issuerId: String
        let keyId: String
        let keyFile: String
    }

    private struct Receipts: Decodable {
        let callsPerMinute: Int?
        let concurrency: Int?
        let polling: Bool?
    }

    static func read(_ path: String) throws(SettingError) -> Content {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw SettingError(description: "cannot read apps file \(path)")
        }
        let malformed = SettingError(
            description: "apps file \(path) is not a JSON array of {\"bundleId\": …, \"appAppleId\": …}")
        guard var objects = (try? JSONSerialization.jsonObject(with: data)) as? [[String: Any]] else { throw malformed }
        var content = Content()
        content.assertions = try AssertionEntry.take(from: &objects, path)
        content.google = try GoogleAppEntry.read(objects.filter { $0["packageName"] != nil }, path)
        let own = objects.filter { $0["packageName"] == nil }
        try refuseUnknownKeys(own, path)
        // The decoder's own error may quote the file, and the file holds secrets.
        guard let data = try? JSONSerialization.data(withJSONObject: own),
            let entries = try? JSONDecoder().decode([Entry].self, from: data)
        else { throw malformed }
        for entry in entries {
            let place = "apps file \(path), app \(entry.bundleId)"
            guard !entry.bundleId.isEmpty else {
                throw SettingError(description: "apps file \(path) has an empty bundleId")
            }
            let secrets = entry.sharedSecrets ?? []
            try checkSecrets(secrets, place)
            content.apple.append(
                App(
                    bundleId: entry.bundleId, appAppleId: entry.appAppleId,
                    environments: try environments(entry.environments, place),
                    sharedSecrets: secrets, acceptsWithoutSecret: entry.acceptWithoutSecret ?? false,
                    ownership: OwnershipRules(
                        policy: try ownership(entry.ownership, place),
                        storeAccountsPerTokenMax: try storeAccountsPerToken(entry.maxStoreAccountsPerToken, place)),
                    callBudget: try callBudget(entry.receipts, place), checks: try checks(entry.checkLead, place),
                    polling: entry.receipts?.polling ?? true,
                    listeningSince: try listeningSince(entry.listeningSince, place),
                    serverAPIKey: try entry.serverAPI.map { (api) throws(SettingError) in
                        try ServerAPIKeyFile.read(
                            api.keyFile, besides: path, issuerId: api.issuerId, keyId: api.keyId, place)
                    }))
        }
        return content
    }

    /// Rejects unknown keys: ignoring a misspelt one would silently drop a setting.
    private static func refuseUnknownKeys(_ entries: [[String: Any]], _ path: String) throws(SettingError) {
        let known: Set = [
            "bundleId", "appAppleId", "environments", "sharedSecrets", "acceptWithoutSecret", "ownership",
            "maxStoreAccountsPerToken", "checkLead", "listeningSince", "receipts", "serverAPI", "forward",
        ]
        let knownOfReceipts: Set = ["callsPerMinute", "concurrency", "polling"]
        let knownOfServerAPI: Set = ["issuerId", "keyId", "keyFile"]
        for (member, known) in [("receipts", knownOfReceipts), ("serverAPI", knownOfServerAPI)] {
            let keys = entries.compactMap { $0[member] as? [String: Any] }.flatMap(\.keys)
            guard let unknown = keys.first(where: { !known.contains($0) }) else { continue }
            throw SettingError(description: "apps file \(path): unknown setting \"\(member).\(unknown)\"")
        }
        guard let unknown = entries.flatMap(\.keys).first(where: { !known.contains($0) }) else { return }
        if unknown == "products" {
            throw SettingError(
                description: """
                    apps file \(path): products are configured in the database: remove "products" and use \
                    `subledger product import`
                    """)
        }
        throw SettingError(description: "apps file \(path): unknown setting \"\(unknown)\"")
    }

    /// - Throws: A setting error that contains the place but not the secret.
    static func checkSecrets(_ secrets: [String], _ place: String) throws(SettingError) {
        guard secrets.allSatisfy({ $0.utf8.count >= App.sharedSecretBytesMin }) else {
            throw SettingError(
                description: "\(place): a shared secret is shorter than \(App.sharedSecretBytesMin) bytes: expected "
                    + "the 32 hexadecimal digits of App Store Connect")
        }
    }

    private static func listeningSince(_ text: String?, _ place: String) throws(SettingError) -> Instant? {
        guard let text else { return nil }
        guard let instant = Instant(iso8601: text) else {
            throw SettingError(
                description: "\(place): unknown listeningSince \"\(text)\": expected an instant such as "
                    + "2026-11-27T08:00:00Z")
        }
        return instant
    }

    /// Parses the name of a policy; nil selects ``OwnershipPolicy/standard``.
    static func ownership(_ name: String?, _ place: String) throws(SettingError) -> OwnershipPolicy {
        guard let name else { return .standard }
        guard let policy = OwnershipPolicy(rawValue: name) else {
            throw SettingError(
                description: "\(place): unknown ownership \"\(name)\": expected latest-buyer, first-buyer or shared")
        }
        return policy
    }

    /// Checks the limit; nil selects that of ``OwnershipRules/standard``.
    static func storeAccountsPerToken(_ limit: Int?, _ place: String) throws(SettingError) -> Int {
        let limit = limit ?? OwnershipRules.standard.storeAccountsPerTokenMax
        try check(limit, OwnershipRules.storeAccountsPerTokenRange, "\(place): maxStoreAccountsPerToken")
        return limit
    }

    /// Checks the numbers; nil selects those of ``CallBudget/standard``.
    private static func callBudget(_ receipts: Receipts?, _ place: String) throws(SettingError) -> CallBudget {
        let callsPerMinute = receipts?.callsPerMinute ?? CallBudget.standard.callsPerMinute
        let concurrency = receipts?.concurrency ?? CallBudget.standard.concurrency
        try check(callsPerMinute, 1...CallBudget.callsPerMinuteMax, "\(place): receipts.callsPerMinute")
        try check(concurrency, 1...CallBudget.concurrencyMax, "\(place): receipts.concurrency")
        return CallBudget(callsPerMinute: callsPerMinute, concurrency: concurrency)
    }

    private static func check(_ number: Int, _ range: ClosedRange<Int>, _ place: String) throws(SettingError) {
        guard range.contains(number) else {
            throw SettingError(
                description: "\(place) \(number): expected a number from \(range.lowerBound) to \(range.upperBound)")
        }
    }

    /// Parses the lead of checks; nil selects ``CheckPolicy/standard``.
    private static func checks(_ lead: String?, _ place: String) throws(SettingError) -> CheckPolicy {
        guard let lead else { return .standard }
        guard let policy = CheckPolicy(lead: lead) else {
            throw SettingError(
                description: "\(place): unknown checkLead \"\(lead)\": expected hours and minutes of at most 24 "
                    + "hours, such as PT6H")
        }
        return policy
    }

    /// Parses Apple's names; nil selects ``App/usualEnvironments``.
    static func environments(_ names: [String]?, _ place: String) throws(SettingError) -> Set<Environment> {
        guard let names else { return App.usualEnvironments }
        var environments: Set<Environment> = []
        for name in names {
            guard let environment = Environment(v2Name: name) else {
                throw SettingError(
                    description:
                        "\(place): unknown environment \"\(name)\": expected Production, Sandbox, Xcode or LocalTesting"
                )
            }
            environments.insert(environment)
        }
        return environments
    }
}
