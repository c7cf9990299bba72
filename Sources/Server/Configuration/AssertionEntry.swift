import HTTPServer

/// The member `"assertions": {"secrets": ["…"], "publicKeys": ["…"]}` of an app in the apps file: with which of them the app's
/// backend signs assertions about its users.
enum AssertionEntry {
    static let name = "assertions"

    /// Takes the member out of each app.
    ///
    /// - Returns: By bundle id or package name.
    /// - Throws: A setting error that quotes no secret.
    static func take(
        from objects: inout [[String: Any]], _ path: String
    ) throws(SettingError) -> [String: AssertionKeys] {
        var keys: [String: AssertionKeys] = [:]
        for index in objects.indices {
            guard let value = objects[index].removeValue(forKey: name) else { continue }
            let app = objects[index]["bundleId"] ?? objects[index]["packageName"]
            let place = "apps file \(path), app \(app as? String ?? "")"
            guard let entry = value as? [String: Any] else {
                throw SettingError(description: "\(place): assertions must be {\"secrets\": […], \"publicKeys\": […]}")
            }
            if let unknown = entry.keys.first(where: { !["secrets", "publicKeys"].contains($0) }) {
                throw SettingError(description: "\(place): unknown setting \"assertions.\(unknown)\"")
            }
            guard let secrets = (entry["secrets"] ?? [String]()) as? [String],
                let publicKeys = (entry["publicKeys"] ?? [String]()) as? [String],
                let parsed = AssertionKeys(secrets: secrets, publicKeys: publicKeys)
            else {
                throw SettingError(
                    description: "\(place): assertions: expected secrets of at least \(AssertionKeys.secretBytesMin) "
                        + "bytes, or publicKeys of Ed25519 in base64url")
            }
            if let app = app as? String { keys[app] = parsed }
        }
        return keys
    }
}
