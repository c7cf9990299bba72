import Foundation
import Outbound
import Subscriptions

/// The members `forward` of the apps file: `"forward": [{"url": "https://…", "environments": ["production"], "sources":
/// ["apple-v2"]}]`. Only the URL is required.
enum ForwardEntries {
    /// - Throws: A setting error that quotes no URL, which can contain a secret.
    static func read(_ path: String, allowsPrivate: Bool) throws(SettingError) -> [Forward] {
        guard let data = FileManager.default.contents(atPath: path),
            let objects = (try? JSONSerialization.jsonObject(with: data)) as? [[String: Any]]
        else { throw SettingError(description: "cannot read apps file \(path)") }
        var forwards: [Forward] = []
        for object in objects {
            guard let value = object["forward"] else { continue }
            let app = (object["bundleId"] ?? object["packageName"]) as? String ?? ""
            let place = "apps file \(path), app \(app)"
            guard let entries = value as? [[String: Any]] else {
                throw SettingError(description: "\(place): forward: expected [{\"url\": …}]")
            }
            for entry in entries { forwards += try read(entry, app, allowsPrivate, place) }
        }
        let repeated = Dictionary(grouping: forwards, by: \.id).first { $0.value.count > 1 }
        if let app = repeated?.value.first?.stream.app {
            throw SettingError(description: "apps file \(path), app \(app): forward has the same URL twice")
        }
        return forwards
    }

    private static func read(
        _ entry: [String: Any], _ app: String, _ allowsPrivate: Bool, _ place: String
    ) throws(SettingError) -> [Forward] {
        if let unknown = entry.keys.first(where: { !["url", "environments", "sources"].contains($0) }) {
            throw SettingError(description: "\(place): unknown setting \"forward.\(unknown)\"")
        }
        guard let url = entry["url"] as? String else {
            throw SettingError(description: "\(place): forward.url is missing")
        }
        do throws(EndpointURL.Malformed) {
            _ = try EndpointURL(url, allowsPrivate: allowsPrivate)
        } catch {
            throw SettingError(description: "\(place): forward.url: \(error)")
        }
        let sources = try names(entry, "sources", Forward.pushed, place)
        let all = ["production", "sandbox"]
        let environments = try names(entry, "environments", Environment.allCases.map(\.rawValue), place) ?? all
        return environments.compactMap(Environment.init(rawValue:)).map { environment in
            Forward(stream: StreamKey(app: app, environment: environment), url: url, sources: sources)
        }
    }

    /// The names of a member; nil if it is absent.
    private static func names(
        _ entry: [String: Any], _ member: String, _ known: [String], _ place: String
    ) throws(SettingError) -> [String]? {
        guard let value = entry[member] else { return nil }
        guard let names = value as? [String], !names.isEmpty, names.allSatisfy(known.contains),
            Set(names).count == names.count
        else {
            throw SettingError(
                description: "\(place): forward.\(member): expected different ones of \(known.joined(separator: ", "))")
        }
        return names
    }
}

extension Settings {
    /// The places to which notifications are passed on.
    func forwards() throws(SettingError) -> [Forward] {
        guard let path = appsFile else { return [] }
        return try ForwardEntries.read(path, allowsPrivate: try allowsPrivateEndpoints())
    }
}
