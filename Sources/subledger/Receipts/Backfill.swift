import AppStore
import ArgumentParser
import Encoding
import EventLog
import Foundation
import Logging
import Readers
import StoreClient
import Subscriptions

struct Backfill: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Read the history of subscriptions from the App Store Server API; a server may keep running.",
        discussion: """
            Reads the state, all transactions and the notifications of up to 180 days of every known subscription whose \
            history has not been read, or of the purchases in a file, and stores what is new. Interrupted or repeated, \
            it continues: what was read is not read again. Requires the app's key in the apps file. Prints the ids that \
            failed and a summary as JSON lines. Exit status 65 if the App Store does not know an id or refuses it; 69 if \
            the App Store or the database cannot be asked; 78 if the app has no key or the App Store rejects it.
            """)

    @Option(help: ArgumentHelp("The app.", valueName: "bundle-id"))
    var app: String

    @Option(help: ArgumentHelp("Only this environment: production or sandbox. [both]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        help: ArgumentHelp(
            "Read these purchases instead: a transaction id or original transaction id per line; - is stdin.",
            valueName: "file"))
    var idsFile: String?

    @Option(
        help: ArgumentHelp("JSON file with the apps, as for `serve`. [SUBLEDGER_APPS_FILE]", valueName: "file"))
    var appsFile: String?

    @Option(
        help: ArgumentHelp(
            """
            A root certificate to trust in addition to Apple's, as for `serve`. Repeatable. \
            [SUBLEDGER_ROOT_FILES, comma-separated]
            """, valueName: "file"))
    var root: [String] = []

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let flags = database.values.merging(
                settings([
                    (["apps", "file"], appsFile),
                    (["root", "files"], root.isEmpty ? nil : root.joined(separator: ",")),
                ])
            ) { first, _ in first }
            let settings = Settings(flags: flags)
            guard let app = try settings.apps().first(where: { $0.bundleId == app }) else {
                throw SettingError(description: "app \(app) is not configured")
            }
            guard app.serverAPIKey != nil else {
                throw SettingError(description: "app \(app.bundleId) has no serverAPI key in the apps file")
            }
            let ids = try idsFile.map { try Self.ids($0) }
            let logger = try settings.logger()
            let roots = try settings.roots()
            let store = StoreServices(
                addresses: try settings.receiptAddresses(), apiAddresses: try settings.serverAPIAddresses(),
                now: SystemClock.now, logger: logger)
            let run: Result<BackfillRun.Summary, any Error>
            do {
                run = .success(
                    try await Database.withExisting(settings, logger: logger) { database in
                        try await read(ids, of: app, store, roots, database, logger: logger)
                    })
            } catch {
                run = .failure(error)
            }
            // Also after an error: the client must not be released with open connections.
            await store.service.transport.shutDown()
            let summary = try run.get()
            print(summary.line(app.bundleId))
            if summary.isKeyRejected {
                printError("subledger: the App Store rejects the key of the app")
                throw ExitCode.configurationError
            }
            if summary.unavailable > 0 { throw ExitCode.unavailable }
            if summary.notFound + summary.refused > 0 { throw ExitCode.dataError }
        }
    }

    /// The ids of a file, one per line.
    private static func ids(_ name: String) throws -> [String] {
        guard let bytes = InputFile.read(name) else {
            throw SettingError(description: "\(name): \(InputFile.unreadable)")
        }
        return String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline)
            .map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    }

    private func read(
        _ ids: [String]?, of app: App, _ store: StoreServices, _ roots: RootCertificates, _ database: Database,
        logger: Logger
    ) async throws -> BackfillRun.Summary {
        try await database.check([.poller, .receiver])
        let poller = database.pool(.poller, limit: 4, logger: logger)
        let receiver = database.pool(.receiver, limit: 3, logger: logger)
        let appender = Appender(pool: receiver, logger: logger)
        let histories = HistoryLog(pool: poller)
        let backfiller = Backfiller(
            client: store.api,
            verifier: NotificationVerifier(apps: Apps([app]), signatures: SignatureVerifier(roots: roots)),
            log: LogReader(pool: poller), histories: histories, subscriptions: SubscriptionReader(pool: poller),
            appender: appender, clock: store.clock)
        async let appending: Void = appender.run()
        let result: Result<BackfillRun.Summary, any Error>
        do {
            let environments = environment.map { [$0.value] } ?? [.production, .sandbox]
            var accounts: [BackfillRun.Account] = []
            if let ids {
                accounts = ids.map { BackfillRun.Account(id: $0, environment: environment?.value) }
            } else {
                for environment in environments {
                    let stream = StreamKey(app: app.bundleId, environment: environment)
                    accounts += try await Self.uncovered(in: stream, histories).map {
                        BackfillRun.Account(id: $0, environment: environment)
                    }
                }
            }
            result = .success(try await BackfillRun(backfiller: backfiller, app: app).run(accounts))
        } catch {
            result = .failure(error)
        }
        await appender.stop()
        await appending
        await poller.close()
        await receiver.close()
        return try result.get()
    }

    private static func uncovered(in stream: StreamKey, _ histories: HistoryLog) async throws -> [String] {
        var ids: [String] = []
        while true {
            let next = try await histories.uncovered(in: stream, after: ids.last, limit: 10_000)
            if next.isEmpty { return ids }
            ids += next
        }
    }
}
