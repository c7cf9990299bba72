import Encoding
import Foundation
import PlayStore
import StoreClient
import Subscriptions

/// An app of Google Play in the apps file:
/// `{"packageName": "com.example.app", "push": {"audience": "https://…/google/notifications", "email":
/// "push@project.iam.gserviceaccount.com", "subscription": "projects/…/subscriptions/…"}, "serviceAccount": "google.json",
/// "acknowledge": true, "polling": true, "licenseKey": "MIIB…", "ownership": "latest-buyer", "maxStoreAccountsPerToken":
/// 10, "joinedWith": "com.example.ios"}`. `packageName` and `push` are required; `{"authentication": "none"}` accepts every push. `refreshToken` names a
/// file in place of `serviceAccount`.
struct GoogleAppEntry: Decodable {
    let packageName: String
    let push: Push
    let serviceAccount: String?
    let refreshToken: String?
    let acknowledge: Bool?
    let polling: Bool?
    let licenseKey: String?
    let ownership: String?
    let maxStoreAccountsPerToken: Int?
    let joinedWith: String?

    struct Push: Decodable {
        let audience: String?
        let email: String?
        let subscription: String?
        let authentication: String?
    }

    private static let known: Set = [
        "packageName", "push", "serviceAccount", "refreshToken", "acknowledge", "polling", "licenseKey", "ownership",
        "maxStoreAccountsPerToken", "joinedWith", "forward",
    ]
    private static let knownOfPush: Set = ["audience", "email", "subscription", "authentication"]

    /// - Throws: A setting error that quotes no secret.
    static func read(_ objects: [[String: Any]], _ path: String) throws(SettingError) -> [GoogleApp] {
        var apps: [GoogleApp] = []
        for object in objects {
            guard let name = object["packageName"] as? String, !name.isEmpty else {
                throw SettingError(description: "apps file \(path) has an app without a readable packageName")
            }
            let place = "apps file \(path), app \(name)"
            try refuseUnknownKeys(object, place)
            guard object["push"] != nil else {
                throw SettingError(
                    description: "\(place): push is missing: expected {\"audience\": …, \"email\": …}")
            }
            // The decoder's own error may quote the file.
            guard let data = try? JSONSerialization.data(withJSONObject: object),
                let entry = try? JSONDecoder().decode(Self.self, from: data)
            else { throw SettingError(description: "\(place): a setting has another type than expected") }
            apps.append(try entry.app(besides: path, place))
        }
        return apps
    }

    private static func refuseUnknownKeys(_ object: [String: Any], _ place: String) throws(SettingError) {
        let push = (object["push"] as? [String: Any]) ?? [:]
        let unknown =
            object.keys.filter { !known.contains($0) }
            + push.keys.filter { !knownOfPush.contains($0) }.map { "push.\($0)" }
        guard let first = unknown.min() else { return }
        throw SettingError(description: "\(place): unknown setting \"\(first)\"")
    }

    private func app(besides path: String, _ place: String) throws(SettingError) -> GoogleApp {
        if let licenseKey {
            do throws(PlayLicenseKey.Unreadable) {
                _ = try PlayLicenseKey(base64: licenseKey)
            } catch {
                throw SettingError(description: "\(place): licenseKey is \(error)")
            }
        }
        return GoogleApp(
            PlayApp(
                packageName: packageName, pushAuthentication: try pushAuthentication(place),
                pushSubscription: push.subscription),
            credentials: try credentials(besides: path, place), acknowledges: acknowledge ?? true,
            polling: polling ?? true, licenseKey: licenseKey,
            ownership: OwnershipRules(
                policy: try AppsFile.ownership(ownership, place),
                storeAccountsPerTokenMax: try AppsFile.storeAccountsPerToken(maxStoreAccountsPerToken, place)),
            joinedWith: joinedWith)
    }

    /// Checks that each app is joined with at most one app of the other store, and with no name that is of both stores.
    ///
    /// - Parameters:
    ///   - apps: The apps of Google Play.
    ///   - bundleIds: The apps of the App Store.
    static func checkJoins(_ apps: [GoogleApp], _ bundleIds: Set<String>) throws(SettingError) {
        var joined: [String: String] = [:]
        for app in apps {
            guard let other = app.joinedWith else { continue }
            let place = "app \(app.packageName): joinedWith \"\(other)\""
            guard other != app.packageName else {
                throw SettingError(
                    description: "\(place) is the app itself: apps with the same name in both stores are one without it"
                )
            }
            guard bundleIds.contains(other) else {
                let isGoogle = apps.contains { $0.packageName == other }
                throw SettingError(
                    description: "\(place) is \(isGoogle ? "an app of Google Play" : "not a configured app"): expected "
                        + "the bundle id of an app of the App Store")
            }
            for name in [app.packageName, other]
            where bundleIds.contains(name) && apps.contains(where: { $0.packageName == name }) {
                throw SettingError(
                    description: "\(place): \(name) is an app of both stores already: expected apps of one store each")
            }
            if let first = joined[other] {
                throw SettingError(description: "\(place) is joined with \(first) already: expected at most one app")
            }
            joined[other] = app.packageName
        }
    }

    private func pushAuthentication(_ place: String) throws(SettingError) -> PushAuthentication {
        switch (push.authentication, push.audience, push.email) {
        case (nil, let audience?, let email?) where !audience.isEmpty && !email.isEmpty:
            return .identity(audience: audience, email: email)
        case ("none", nil, nil): return .none
        case ("none", _, _):
            throw SettingError(
                description: "\(place): push has \"authentication\": \"none\" and an audience or an email: remove one")
        case (let other?, _, _):
            throw SettingError(description: "\(place): unknown push.authentication \"\(other)\": expected none")
        default:
            throw SettingError(
                description: "\(place): push needs audience and email, or \"authentication\": \"none\"")
        }
    }

    private func credentials(besides path: String, _ place: String) throws(SettingError) -> GoogleCredentials? {
        switch (serviceAccount, refreshToken) {
        case (nil, nil): return nil
        case (let name?, nil):
            let (file, data) = try SecretFile.read(name, besides: path, "key file", place)
            let account: ServiceAccount
            do throws(ServiceAccount.Problem) {
                account = try ServiceAccount(keyFile: Array(data))
            } catch {
                throw SettingError(description: "\(place): key file \(file): \(error)")
            }
            guard ReceiptAddresses.accepts(account.tokenURL) else {
                throw SettingError(description: "\(place): key file \(file): token_uri is not an https URL")
            }
            return .serviceAccount(account)
        case (nil, let name?):
            let (file, data) = try SecretFile.read(name, besides: path, "credentials file", place)
            guard let root = try? JSONDocument(Array(data)).root, root.isObject,
                let clientId = root["client_id"]?.string, let clientSecret = root["client_secret"]?.string,
                let token = root["refresh_token"]?.string
            else {
                throw SettingError(
                    description: "\(place): credentials file \(file): expected JSON with client_id, client_secret and "
                        + "refresh_token")
            }
            return .refreshToken(RefreshToken(clientId: clientId, clientSecret: clientSecret, token: token))
        case (_?, _?):
            throw SettingError(description: "\(place): serviceAccount and refreshToken: expected one of them")
        }
    }
}
