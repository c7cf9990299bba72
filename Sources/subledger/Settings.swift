import AppStore
import ArgumentParser
import Configuration
import Foundation
import HTTPServer
import Logging
import Postgres

/// Flags of the commands that need the database.
struct DatabaseFlags: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            PostgreSQL 15 or newer, as postgres://user:password@host:port/database. Without it a private server runs \
            in the data folder. [SUBLEDGER_DATABASE_URL]
            """, valueName: "url"))
    var databaseUrl: String?

    @Option(
        help: ArgumentHelp(
            """
            Folder of the private server. [SUBLEDGER_DATA_FOLDER; /var/lib/subledger as root, else \
            ~/.local/share/subledger]
            """, valueName: "folder"))
    var dataFolder: String?

    @Option(
        help: ArgumentHelp(
            "trace, debug, info, notice, warning or error. [SUBLEDGER_LOG_LEVEL; info]", valueName: "level"))
    var logLevel: String?

    var values: [AbsoluteConfigKey: ConfigValue] {
        settings([
            (["database", "url"], databaseUrl), (["data", "folder"], dataFolder), (["log", "level"], logLevel),
        ])
    }
}

func settings(_ flags: [(key: [String], value: String?)]) -> [AbsoluteConfigKey: ConfigValue] {
    var values: [AbsoluteConfigKey: ConfigValue] = [:]
    for flag in flags {
        guard let value = flag.value else { continue }
        values[AbsoluteConfigKey(["subledger"] + flag.key)] = ConfigValue(.string(value), isSecret: false)
    }
    return values
}

/// A setting that cannot be used, in one line that names it.
struct SettingError: Error, CustomStringConvertible {
    let description: String
}

/// Settings by flag, else by environment variable, else by default.
struct Settings {
    private let reader: ConfigReader

    init(flags: [AbsoluteConfigKey: ConfigValue]) {
        reader = ConfigReader(providers: [
            InMemoryProvider(values: flags),
            EnvironmentVariablesProvider(
                secretsSpecifier: .specific(["SUBLEDGER_DATABASE_URL", "SUBLEDGER_APP_SHARED_SECRET"])),
        ]).scoped(to: "subledger")
    }

    /// Nil when unset or empty.
    private func text(_ key: ConfigKey, isSecret: Bool = false) -> String? {
        reader.string(forKey: key, isSecret: isSecret).flatMap { $0.isEmpty ? nil : $0 }
    }

    // MARK: Database

    var databaseURL: String? { text("database.url", isSecret: true) }

    var dataFolder: String {
        if let folder = text("data.folder") { return URL(fileURLWithPath: folder).path }
        if geteuid() == 0 { return "/var/lib/subledger" }
        let environment = ProcessInfo.processInfo.environment
        if let base = environment["XDG_DATA_HOME"], !base.isEmpty { return "\(base)/subledger" }
        return "\(environment["HOME"] ?? NSHomeDirectory())/.local/share/subledger"
    }

    // MARK: Log

    func logger() throws(SettingError) -> Logger {
        var logger = Logger(label: "subledger") { label in StreamLogHandler.standardError(label: label) }
        let name = text("log.level") ?? "info"
        guard let level = Logger.Level(rawValue: name) else {
            throw SettingError(
                description: "log level \"\(name)\" is not one of trace, debug, info, notice, warning, error")
        }
        logger.logLevel = level
        return logger
    }

    // MARK: Listeners

    func publicAddress() throws(SettingError) -> ListenAddress {
        try address("public", host: "0.0.0.0", port: 8080)
    }

    func privateAddress() throws(SettingError) -> ListenAddress {
        try address("private", host: "127.0.0.1", port: 8081)
    }

    private func address(_ listener: String, host: String, port: Int) throws(SettingError) -> ListenAddress {
        let portText = text([listener, "port"]) ?? String(port)
        guard let port = Int(portText), (0...65535).contains(port) else {
            throw SettingError(description: "\(listener) port \"\(portText)\" is not a number from 0 to 65535")
        }
        return ListenAddress(host: text([listener, "host"]) ?? host, port: port)
    }

    // MARK: Apps

    /// Of the app that is given by itself.
    var appBundleId: String? { text("app.bundle.id") }

    var appSharedSecret: String? { text("app.shared.secret", isSecret: true) }

    /// The apps of the apps file, and the one that is given by itself.
    func apps() throws(SettingError) -> [ConfiguredApp] {
        var apps: [ConfiguredApp] = []
        if let path = text("apps.file") { apps += try AppsFile.read(path) }
        switch (appBundleId, appSharedSecret) {
        case (let bundleId?, let secret?):
            let app = App(bundleId: bundleId, sharedSecrets: [secret])
            apps.append(ConfiguredApp(app: app, products: .empty))
        case (nil, nil): break
        case (_?, nil):
            throw SettingError(description: "SUBLEDGER_APP_BUNDLE_ID is set without SUBLEDGER_APP_SHARED_SECRET")
        case (nil, _?):
            throw SettingError(description: "SUBLEDGER_APP_SHARED_SECRET is set without SUBLEDGER_APP_BUNDLE_ID")
        }
        let repeated = Dictionary(grouping: apps, by: \.app.bundleId).first { $0.value.count > 1 }
        if let repeated { throw SettingError(description: "app \(repeated.key) is configured twice") }
        return apps
    }
}
