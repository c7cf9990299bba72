import ArgumentParser
import Configuration
import EventLog
import Foundation
import Outbound
import Postgres
import Server
import Subscriptions

/// The flags about endpoints and the keys that sign for them.
struct WebhookFlags: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The file with the keys that sign webhooks. Created if it does not exist. [SUBLEDGER_WEBHOOK_KEYS; \
            webhook-keys.json in the data folder, none with a database URL]
            """, valueName: "file"))
    var webhookKeys: String?

    @Flag(
        help: """
            Accept endpoints with http URLs and with addresses that are not public. \
            [SUBLEDGER_ALLOW_PRIVATE_ENDPOINTS; false]
            """)
    var allowPrivateEndpoints = false

    var values: [AbsoluteConfigKey: ConfigValue] {
        settings([
            (["webhook", "keys"], webhookKeys),
            (["allow", "private", "endpoints"], allowPrivateEndpoints ? "true" : nil),
        ])
    }
}

/// The flags of the commands that manage endpoints.
struct WebhookCommandFlags: ParsableArguments {
    @OptionGroup var webhooks: WebhookFlags
    @OptionGroup var database: DatabaseFlags

    /// Runs a command with the rights of `subledger_products`.
    func withAdmin<Value: Sendable>(_ command: (EndpointAdmin) async throws -> Value) async throws -> Value {
        let settings = Settings(flags: database.values.merging(webhooks.values) { $1 })
        let logger = try settings.logger()
        let keyFile = try settings.webhookKeyFile()
        let client = EndpointClientSettings(allowsPrivate: try settings.allowsPrivateEndpoints())
        let apps = Set(try settings.apps().map(\.bundleId) + settings.googleApps().map(\.packageName))
        return try await Database.withExisting(settings, logger: logger) { database in
            let pool = database.pool(.products, limit: 1, logger: logger)
            let admin = EndpointAdmin(
                store: EndpointStore(pool: pool), keyFile: keyFile, settings: client, apps: apps,
                now: { SystemClock.now() })
            do {
                let value = try await command(admin)
                await pool.close()
                return value
            } catch {
                await pool.close()
                throw error
            }
        }
    }
}

extension EndpointStatus {
    /// `end_… active: com.example production, changes, v1a, at 12 of 12, 0 waiting, 0 exhausted: https://…`
    var line: String {
        let state =
            switch endpoint.state {
            case .active: failingSince.map { "failing since \($0)" } ?? "active"
            case .disabled(let reason, let at): "disabled \(at) (\(reason.rawValue))"
            }
        let kinds = endpoint.kinds?.joined(separator: ",") ?? "all"
        return "\(endpoint.id) \(state): \(endpoint.stream.app) \(endpoint.stream.environment.rawValue), "
            + "\(endpoint.purpose.rawValue) \(kinds), \(endpoint.signature.rawValue), at \(number) of \(head), "
            + "\(waiting) waiting, \(exhausted) exhausted: \(endpoint.url)"
    }
}
