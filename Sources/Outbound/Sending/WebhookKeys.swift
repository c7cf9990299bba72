import Encoding
import Foundation
import StandardWebhooks
import Synchronization

/// The file with the keys that sign webhooks: the key of the server, and secrets of endpoints.
///
/// ```json
/// {"server": [{"key": "whsk_…"}], "endpoints": {"end_…": [{"key": "whsec_…"}, {"key": "whsec_…", "until": "…Z"}]}}
/// ```
///
/// Keys are never in the database, and only this file's owner may read it. Each list has the newest key first; one with
/// `until` was replaced, and signs until then. `request` is a digest of the idempotency key of the request that made it.
package struct WebhookKeys: Sendable, Codable {
    struct Entry: Sendable, Codable {
        let key: String
        var until: String?
        var request: String?

        func isValid(at now: Instant) -> Bool {
            guard let until else { return true }
            return Instant(iso8601: until).map { $0 > now } ?? false
        }
    }

    var server: [Entry] = []
    var endpoints: [String: [Entry]] = [:]

    package init() {}

    fileprivate func entries(of endpoint: Endpoint) -> [Entry] {
        switch endpoint.signature {
        case .v1: endpoints[endpoint.id] ?? []
        case .v1a: server
        case .none: []
        }
    }

    /// The public keys of the server, the newest first.
    package func published(at now: Instant) -> [String] {
        server.filter { $0.isValid(at: now) }
            .compactMap { try? SigningKey($0.key) }.compactMap(\.verificationKey.publicText)
    }

    /// Adds a secret of an endpoint, or replaces it: the one before signs for ``Limits/rotationTime``.
    ///
    /// - Parameter request: What a repeated request has, too: it replaces nothing.
    /// - Returns: The new secret, or the one that the first request made.
    package mutating func rotate(_ id: String, at now: Instant, request: RepeatableRequest? = nil) -> String {
        let entries = endpoints[id] ?? []
        if let known = Self.key(of: request, among: entries, now) { return known }
        let key = SigningKey.makeShared().text
        endpoints[id] = Self.rotated(entries, key, now, request)
        return key
    }

    /// The secret of an endpoint that is about to be added. A request that is repeated finds that of the first one.
    package mutating func secret(ofNew id: String, at now: Instant) -> String {
        endpoints[id]?.first { $0.until == nil }?.key ?? rotate(id, at: now)
    }

    /// Replaces the key of the server.
    ///
    /// - Parameter request: See ``rotate(_:at:request:)``.
    /// - Returns: The new public key, or the one that the first request made.
    package mutating func rotateServer(at now: Instant, request: RepeatableRequest? = nil) -> String? {
        if let known = Self.key(of: request, among: server, now) {
            return (try? SigningKey(known))?.verificationKey.publicText
        }
        let key = SigningKey.makeEd25519()
        server = Self.rotated(server, key.text, now, request)
        return key.verificationKey.publicText
    }

    /// The key that a request made; nil if it made none, or if that signs no longer.
    private static func key(of request: RepeatableRequest?, among entries: [Entry], _ now: Instant) -> String? {
        guard let digest = request?.digest else { return nil }
        return entries.first { $0.request == digest && $0.isValid(at: now) }?.key
    }

    private static func rotated(
        _ entries: [Entry], _ key: String, _ now: Instant, _ request: RepeatableRequest?
    ) -> [Entry] {
        let until = now.advanced(by: Limits.rotationTime).description
        return [Entry(key: key, request: request?.digest)]
            + entries.filter { $0.isValid(at: now) }.map { entry in
                Entry(key: entry.key, until: entry.until ?? until, request: entry.request)
            }
    }

    /// Whether every key can be read.
    var isWellFormed: Bool {
        (server + endpoints.values.flatMap(\.self)).allSatisfy { entry in
            (try? SigningKey(entry.key)) != nil && entry.until.map { Instant(iso8601: $0) != nil } ?? true
        }
    }
}

/// Where the keys are.
package final class WebhookKeyFile: Sendable {
    package let path: String
    private let cache = Mutex<Known?>(nil)

    /// The file as it was read last.
    private struct Known {
        let stamp: [Int]
        let keys: WebhookKeys
        /// The keys that have signed, by their text: to read a key costs as much as to sign.
        var parsed: [String: SigningKey] = [:]
    }

    package init(path: String) {
        self.path = path
    }

    package struct Problem: Error, CustomStringConvertible, Hashable, Sendable {
        /// Quotes nothing from the file.
        package let description: String
    }

    /// The keys of the file as it is now; without keys if there is no file.
    ///
    /// - Throws: If other users may read the file, or if it has another form.
    package func read() throws(Problem) -> WebhookKeys {
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == ENOENT { return WebhookKeys() }
            throw Problem(description: "webhook keys \(path) cannot be read: \(String(cString: strerror(errno)))")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw Problem(description: "webhook keys \(path) can be read by other users: expected mode 0600")
        }
        let stamp = [Int(status.st_ino), Int(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
        if let known = cache.withLock({ $0 }), known.stamp == stamp { return known.keys }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Problem(description: "webhook keys \(path) cannot be read")
        }
        guard let keys = try? JSONDecoder().decode(WebhookKeys.self, from: data), keys.isWellFormed else {
            throw Problem(description: "webhook keys \(path) have another form than `subledger webhook` writes")
        }
        cache.withLock { $0 = Known(stamp: stamp, keys: keys) }
        return keys
    }

    /// The keys of the file as it is now that sign for an endpoint; empty if there are none.
    ///
    /// - Throws: See ``read()``.
    package func signing(_ endpoint: Endpoint, at now: Instant) throws(Problem) -> [SigningKey] {
        let entries = try read().entries(of: endpoint).filter { $0.isValid(at: now) }
        return cache.withLock { known in
            entries.compactMap { entry in
                if let key = known?.parsed[entry.key] { return key }
                let key = try? SigningKey(entry.key)
                known?.parsed[entry.key] = key
                return key
            }
        }
    }

    /// Changes the keys. Other processes that change them wait; a reader finds the old or the new file.
    package func change<Value>(_ change: (inout WebhookKeys) -> Value) throws(Problem) -> Value {
        let lock = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else { throw failure() }
        defer { close(lock) }
        guard flock(lock, LOCK_EX) == 0 else { throw failure() }
        var keys = try read()
        let value = change(&keys)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(keys) else { throw failure() }
        let draft = "\(path).\(UUID().uuidString)"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure() }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        // The server reads it as the user that owns the folder.
        var folder = stat()
        if geteuid() == 0, stat((path as NSString).deletingLastPathComponent, &folder) == 0 {
            _ = fchown(descriptor, folder.st_uid, folder.st_gid)
            _ = fchown(lock, folder.st_uid, folder.st_gid)
        }
        do {
            try handle.write(contentsOf: data)
            try handle.synchronize()
        } catch {
            unlink(draft)
            throw failure()
        }
        guard rename(draft, path) == 0 else {
            unlink(draft)
            throw failure()
        }
        return value
    }

    /// Makes the key of the server if there is none.
    package func createServerKey(at now: Instant) throws(Problem) {
        guard try read().server.isEmpty else { return }
        try change { keys in
            if keys.server.isEmpty { _ = keys.rotateServer(at: now) }
        }
    }

    private func failure() -> Problem {
        Problem(description: "webhook keys \(path) cannot be written: \(String(cString: strerror(errno)))")
    }
}
