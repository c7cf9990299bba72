import AppStore
import ArgumentParser
import Configuration
import EventLog
import Foundation
import HTTPServer
import Logging
import Outbound
import Postgres
import StoreClient

/// Flags of the commands that use the database.
package struct DatabaseFlags: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            PostgreSQL 15 or newer, as postgres://user:password@host:port/database. Without it, a private PostgreSQL \
            runs in the data folder. [SUBLEDGER_DATABASE_URL]
            """, valueName: "url"))
    package var databaseUrl: String?

    @Option(
        help: ArgumentHelp(
            """
            Folder of the private PostgreSQL. [SUBLEDGER_DATA_FOLDER; /var/lib/subledger as root, else \
            ~/.local/share/subledger]
            """, valueName: "folder"))
    package var dataFolder: String?

    @Option(
        help: ArgumentHelp(
            "trace, debug, info, notice, warning or error. [SUBLEDGER_LOG_LEVEL; info]", valueName: "level"))
    package var logLevel: String?

    package init() {}

    package var values: [AbsoluteConfigKey: ConfigValue] {
        settings([
            (["database", "url"], databaseUrl), (["data", "folder"], dataFolder), (["log", "level"], logLevel),
        ])
    }
}

/// The flag of the commands that read or write archive files.
package struct ArchiveFlags: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Folder of the archive files with bodies of past months. [SUBLEDGER_ARCHIVE_FOLDER]", valueName: "folder"))
    package var archiveFolder: String?

    package init() {}

    package var values: [AbsoluteConfigKey: ConfigValue] {
        settings([(["archive", "folder"], archiveFolder)])
    }
}

package func settings(_ flags: [(key: [String], value: String?)]) -> [AbsoluteConfigKey: ConfigValue] {
    var values: [AbsoluteConfigKey: ConfigValue] = [:]
    for flag in flags {
        guard let value = flag.value else { continue }
        values[AbsoluteConfigKey(["subledger"] + flag.key)] = ConfigValue(.string(value), isSecret: false)
    }
    return values
}

/// An invalid setting; the description is one line that names it.
package struct SettingError: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) {
        self.description = description
    }
}

/// The settings of a command. Flags take precedence over environment variables, and these over defaults.
package struct Settings {
    private let reader: ConfigReader

    package init(flags: [AbsoluteConfigKey: ConfigValue]) {
        reader = ConfigReader(providers: [
            InMemoryProvider(values: flags),
            EnvironmentVariablesProvider(
                secretsSpecifier: .specific([
                    "SUBLEDGER_DATABASE_URL", "SUBLEDGER_APP_SHARED_SECRET", "SUBLEDGER_TOKEN",
                ])),
        ]).scoped(to: "subledger")
    }

    /// The value of a setting; nil if unset or empty.
    private func text(_ key: ConfigKey, isSecret: Bool = false) -> String? {
        reader.string(forKey: key, isSecret: isSecret).flatMap { $0.isEmpty ? nil : $0 }
    }

    // MARK: Database

    /// The connection string, from its setting or its file; nil for the private PostgreSQL.
    package func databaseURL() throws(SettingError) -> String? {
        let given = text("database.url", isSecret: true)
        guard let file = databaseURLFile else { return given }
        guard given == nil else {
            throw SettingError(
                description: "SUBLEDGER_DATABASE_URL and SUBLEDGER_DATABASE_URL_FILE are both set: expected one of them"
            )
        }
        guard let bytes = FileManager.default.contents(atPath: file) else {
            throw SettingError(description: "SUBLEDGER_DATABASE_URL_FILE: cannot read \(file)")
        }
        let url = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        // An empty file must not select the private PostgreSQL: events would go to a database that is not backed up.
        guard !url.isEmpty else {
            throw SettingError(description: "SUBLEDGER_DATABASE_URL_FILE: \(file) is empty: expected a database URL")
        }
        return url
    }

    /// The file with the connection string, so that its password is in no environment.
    package var databaseURLFile: String? { text("database.url.file") }

    /// Why commits survive a crash of the database.
    package func durabilityBasis() throws(SettingError) -> Durability.Basis {
        guard let name = text("database.durability") else { return .settings }
        guard let basis = Durability.Basis(rawValue: name) else {
            throw SettingError(description: "database durability \"\(name)\": expected settings or provider")
        }
        // Whoever runs the private server keeps its commits by its settings alone.
        if basis == .provider, try databaseURL() == nil {
            throw SettingError(
                description:
                    "database durability \"provider\": expected a database URL, because the private server has none")
        }
        return basis
    }

    package var dataFolder: String {
        if let folder = text("data.folder") { return URL(fileURLWithPath: folder).path }
        if geteuid() == 0 { return "/var/lib/subledger" }
        let environment = ProcessInfo.processInfo.environment
        if let base = environment["XDG_DATA_HOME"], !base.isEmpty { return "\(base)/subledger" }
        return "\(environment["HOME"] ?? NSHomeDirectory())/.local/share/subledger"
    }

    /// Where the bodies of past months are.
    package var archive: BodyArchive {
        BodyArchive(folder: text("archive.folder").map { URL(fileURLWithPath: $0).path })
    }

    /// The file of the head key, if one is configured.
    package var configuredHeadKey: String? { text("head.key") }

    /// The name of the installation in the origins of checkpoints, if one is configured.
    var configuredInstallation: String? { text("installation") }

    /// The folder that records the last signed checkpoints, if one is configured.
    var configuredCheckpointRecord: String? { text("checkpoint.record") }

    // MARK: Webhooks

    /// The file with the keys that sign webhooks; nil if there is none. Servers that share a database need the same keys,
    /// so none of them makes a file of its own.
    package func webhookKeyFile() throws(SettingError) -> WebhookKeyFile? {
        if let path = text("webhook.keys") { return WebhookKeyFile(path: path) }
        return try databaseURL() == nil ? WebhookKeyFile(path: "\(dataFolder)/webhook-keys.json") : nil
    }

    /// Whether endpoints may have `http` URLs and addresses that are not public.
    package func allowsPrivateEndpoints() throws(SettingError) -> Bool {
        switch text("allow.private.endpoints") {
        case nil, "false": return false
        case "true": return true
        case let other?:
            throw SettingError(description: "allow private endpoints \"\(other)\": expected true or false")
        }
    }

    // MARK: Log

    package func logger() throws(SettingError) -> Logger {
        var logger = Logger(label: "subledger") { label in
            OneLineLogHandler(StreamLogHandler.standardError(label: label))
        }
        let name = text("log.level") ?? "info"
        guard let level = Logger.Level(rawValue: name) else {
            throw SettingError(
                description: "unknown log level \"\(name)\": expected trace, debug, info, notice, warning or error")
        }
        logger.logLevel = level
        return logger
    }

    // MARK: Roles

    /// The value as given; nil only if unset, since an empty role name is an error.
    package var roleNames: String? { reader.string(forKey: "roles") }

    // MARK: Listeners

    package func publicAddress() throws(SettingError) -> ListenAddress {
        try address("public", host: "0.0.0.0", port: 8080)
    }

    package func privateAddress() throws(SettingError) -> ListenAddress {
        try address("private", host: "127.0.0.1", port: 8081)
    }

    /// Where a browser on this machine finds the private listener.
    package func privateURL() throws(SettingError) -> String {
        guard try privateFront() != .tls else {
            throw SettingError(description: "the private listener is behind a proxy: expected --url with its address")
        }
        let address = try privateAddress()
        let scheme = text(["private", "tls", "certificate"]) == nil ? "http" : "https"
        let host = ["0.0.0.0", "::"].contains(address.host) ? "127.0.0.1" : address.host
        return "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(address.port)"
    }

    private func address(_ listener: String, host: String, port: Int) throws(SettingError) -> ListenAddress {
        let portText = text([listener, "port"]) ?? String(port)
        guard let port = Int(portText), (0...65535).contains(port) else {
            throw SettingError(description: "\(listener) port \"\(portText)\" is not a number from 0 to 65535")
        }
        return ListenAddress(host: text([listener, "host"]) ?? host, port: port)
    }

    package func publicConnectionsPerAddress() throws(SettingError) -> Int {
        try connectionsPerAddress("public") ?? Limits.publicConnectionsPerAddress
    }

    package func privateConnectionsPerAddress() throws(SettingError) -> Int {
        try connectionsPerAddress("private") ?? Limits.privateConnectionsPerAddress
    }

    /// What stands in front of the private listener; nil for nothing.
    package func privateFront() throws(SettingError) -> ConsoleTransport.Front? {
        guard let name = text(["private", "front"]) else { return nil }
        guard let front = ConsoleTransport.Front(rawValue: name) else {
            throw SettingError(description: "private front \"\(name)\": expected tls-proxy or loopback")
        }
        return front
    }

    /// Whether people can act for customers in the console.
    package func consoleActs() throws(SettingError) -> Bool { try isOn(["console", "acts"], default: true) }

    /// Whether the stores are asked for changes of subscriptions, in the console or by HTTP.
    package func storeWrites() throws(SettingError) -> Bool { try isOn(["store", "writes"], default: true) }

    /// Whether apps reach their routes on the public listener, too.
    package func publicApps() throws(SettingError) -> Bool { try isOn(["public", "apps"], default: false) }

    /// The number of listeners of a process: every one has the private listener.
    package func listenerCount() throws(SettingError) -> Int {
        let (roles, servesApps) = (try self.roles(), try publicApps())
        return roles.contains(.receiver) || roles.contains(.reader) && servesApps ? 2 : 1
    }

    private func isOn(_ key: ConfigKey, default usual: Bool) throws(SettingError) -> Bool {
        switch text(key) {
        case "on": return true
        case "off": return false
        case nil: return usual
        case let name?:
            throw SettingError(
                description: "\(key.components.joined(separator: " ")) \"\(name)\": expected on or off")
        }
    }

    /// The names by which browsers and monitoring know the private listener.
    package var privateNames: [String] { Self.list(text(["private", "names"])) ?? [] }

    private func connectionsPerAddress(_ listener: String) throws(SettingError) -> Int? {
        guard let numberText = text([listener, "connections", "per", "address"]) else { return nil }
        guard let number = Int(numberText), number > 0 else {
            throw SettingError(
                description: "\(listener) connections per address \"\(numberText)\": expected a number from 1")
        }
        return number
    }

    package func publicTLS() throws(SettingError) -> TLSFiles? { try tls("public") }

    package func privateTLS() throws(SettingError) -> TLSFiles? { try tls("private") }

    /// Nil for plain HTTP.
    private func tls(_ listener: String) throws(SettingError) -> TLSFiles? {
        let certificate = text([listener, "tls", "certificate"])
        let key = text([listener, "tls", "key"])
        switch (certificate, key) {
        case (let certificate?, let key?): return TLSFiles(certificate: certificate, key: key)
        case (nil, nil): return nil
        default:
            throw SettingError(
                description:
                    "\(listener) TLS requires a certificate and its key: \(key == nil ? "the key" : "the certificate") is missing"
            )
        }
    }

    // MARK: Quarantine

    package func quarantineMegabytes() throws(SettingError) -> Int? { try number("quarantine.megabytes", from: 8) }

    package func quarantineDays() throws(SettingError) -> Int? { try number("quarantine.days", from: 1) }

    /// A number with at most six digits; nil if unset.
    private func number(_ key: ConfigKey, from least: Int) throws(SettingError) -> Int? {
        guard let numberText = text(key) else { return nil }
        guard let number = Int(numberText), (least..<1_000_000).contains(number) else {
            let name = key.components.joined(separator: " ")
            throw SettingError(description: "\(name) \"\(numberText)\": expected a number from \(least) to 999999")
        }
        return number
    }

    // MARK: Readers

    /// The bearer token for the private listener.
    package var token: String? { text("token", isSecret: true) }

    // MARK: Apps

    package var appsFile: String? { text("apps.file") }

    /// The bundle id of the app that is configured without the apps file.
    package var appBundleId: String? { text("app.bundle.id") }

    package var appSharedSecret: String? { text("app.shared.secret", isSecret: true) }

    /// The apps of Google Play in the apps file.
    package func googleApps() throws(SettingError) -> [GoogleApp] {
        let apps = try appsFile.map { (path) throws(SettingError) in try AppsFile.read(path).google } ?? []
        let repeated = Dictionary(grouping: apps, by: \.packageName).first { $0.value.count > 1 }
        if let repeated { throw SettingError(description: "app \(repeated.key) is configured twice") }
        if apps.contains(where: { $0.joinedWith != nil }) {
            try GoogleAppEntry.checkJoins(apps, Set(try self.apps().map(\.bundleId)))
        }
        return apps
    }

    /// By app, the keys of assertions about its users.
    package func assertionKeys() throws(SettingError) -> [String: AssertionKeys] {
        try appsFile.map { (path) throws(SettingError) in try AppsFile.read(path).assertions } ?? [:]
    }

    /// The apps of the App Store in the apps file, and the one that is configured without it.
    package func apps() throws(SettingError) -> [App] {
        var apps: [App] = []
        if let path = appsFile { apps += try AppsFile.read(path).apple }
        if let app = try singleApp() { apps.append(app) }
        let repeated = Dictionary(grouping: apps, by: \.bundleId).first { $0.value.count > 1 }
        if let repeated { throw SettingError(description: "app \(repeated.key) is configured twice") }
        return apps
    }

    private func singleApp() throws(SettingError) -> App? {
        let secret = text("app.shared.secret", isSecret: true)
        let appleId = text("app.apple.id")
        let environments = text("app.environments")
        guard let bundleId = text("app.bundle.id") else {
            let orphan = [
                ("SHARED_SECRET", secret), ("APPLE_ID", appleId), ("ENVIRONMENTS", environments),
            ].first { $0.1 != nil }
            guard let orphan else { return nil }
            throw SettingError(description: "SUBLEDGER_APP_\(orphan.0) is set without SUBLEDGER_APP_BUNDLE_ID")
        }
        guard (appleId == nil) == (appleId.flatMap { Int64($0) } == nil) else {
            throw SettingError(description: "SUBLEDGER_APP_APPLE_ID is not a number")
        }
        let secrets = [secret].compactMap { $0 }
        try AppsFile.checkSecrets(secrets, "SUBLEDGER_APP_SHARED_SECRET, app \(bundleId)")
        return App(
            bundleId: bundleId, appAppleId: appleId.flatMap { Int64($0) },
            environments: try AppsFile.environments(Self.list(environments), "SUBLEDGER_APP_ENVIRONMENTS"),
            sharedSecrets: secrets)
    }

    /// Splits a comma-separated list and removes whitespace and empty elements.
    private static func list(_ text: String?) -> [String]? {
        text?.split(separator: ",").map { $0.filter { !$0.isWhitespace } }.filter { !$0.isEmpty }
    }

    // MARK: App Store

    /// The URLs that are asked about receipts: Apple's, unless a test replaces them.
    package func receiptAddresses() throws(SettingError) -> ReceiptAddresses {
        let apple = ReceiptAddresses.apple
        return ReceiptAddresses(
            production: try storeURL("verify.receipt.url", "SUBLEDGER_VERIFY_RECEIPT_URL") ?? apple[.production],
            sandbox: try storeURL("verify.receipt.sandbox.url", "SUBLEDGER_VERIFY_RECEIPT_SANDBOX_URL")
                ?? apple[.sandbox])
    }

    /// The base URLs of the App Store Server API: Apple's, unless a test replaces them.
    package func serverAPIAddresses() throws(SettingError) -> ServerAPIAddresses {
        let apple = ServerAPIAddresses.apple
        return ServerAPIAddresses(
            production: try storeURL("server.api.url", "SUBLEDGER_SERVER_API_URL") ?? apple[.production],
            sandbox: try storeURL("server.api.sandbox.url", "SUBLEDGER_SERVER_API_SANDBOX_URL") ?? apple[.sandbox])
    }

    /// The URLs of Google's services: Google's, unless a test replaces them.
    package func googleAddresses() throws(SettingError) -> GoogleAddresses {
        GoogleAddresses(
            api: try storeURL("google.api.url", "SUBLEDGER_GOOGLE_API_URL") ?? GoogleAddresses.google.api,
            signingKeys: try storeURL("google.keys.url", "SUBLEDGER_GOOGLE_KEYS_URL")
                ?? GoogleAddresses.google.signingKeys,
            token: try storeURL("google.token.url", "SUBLEDGER_GOOGLE_TOKEN_URL"))
    }

    /// - Throws: A setting error without the URL, which may contain a password.
    private func storeURL(_ key: ConfigKey, _ name: String) throws(SettingError) -> String? {
        guard let url = text(key) else { return nil }
        guard ReceiptAddresses.accepts(url) else {
            throw SettingError(description: "\(name): expected an https URL, or an http URL of this machine")
        }
        return url
    }

    // MARK: Roots

    /// Apple's root certificate and those of the configured files.
    package func roots() throws(SettingError) -> RootCertificates {
        var roots = RootCertificates.apple
        for path in rootFiles { roots = roots + (try Self.root(path)) }
        return roots
    }

    package func revocationMode() throws(SettingError) -> RevocationMode {
        let name = text("ocsp") ?? "background"
        guard let mode = RevocationMode(rawValue: name) else {
            throw SettingError(description: "unknown OCSP mode \"\(name)\": expected off, background or required")
        }
        return mode
    }

    package var rootFiles: [String] { Self.list(text("root.files")) ?? [] }

    package static func root(_ path: String) throws(SettingError) -> RootCertificates {
        guard let bytes = FileManager.default.contents(atPath: path) else {
            throw SettingError(description: "cannot read root certificate \(path)")
        }
        guard let roots = RootCertificates(file: Array(bytes)) else {
            throw SettingError(description: "root certificate \(path) is not a DER or PEM certificate")
        }
        return roots
    }
}
