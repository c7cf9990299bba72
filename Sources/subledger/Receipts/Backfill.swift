import ArgumentParser
import Encoding
import EventLog
import Foundation
import Readers
import Server
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

    @OptionGroup var asking: StoreSessionFlags

    @Option(help: ArgumentHelp("Only this environment: production or sandbox. [both]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        help: ArgumentHelp(
            "Read these purchases instead: a transaction id or original transaction id per line; - is stdin.",
            valueName: "file"))
    var idsFile: String?

    func run() async throws {
        try await reportingFailures {
            let ids = try idsFile.map { try Self.ids($0) }
            let (app, summary) = try await StoreSession.with(asking) { session in
                (session.app, try await read(ids, session))
            }
            print(summary.line(app.bundleId))
            if summary.isKeyRejected { try StoreSession.reportRejectedKey() }
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

    private func read(_ ids: [String]?, _ session: StoreSession) async throws -> BackfillRun.Summary {
        let histories = HistoryLog(pool: session.poller)
        let backfiller = Backfiller(
            client: session.store.api, verifier: session.verifier, log: LogReader(pool: session.poller),
            histories: histories, subscriptions: SubscriptionReader(pool: session.poller), appender: session.appender,
            clock: session.store.clock)
        var accounts: [BackfillRun.Account] = []
        if let ids {
            accounts = ids.map { BackfillRun.Account(id: $0, environment: environment?.value) }
        } else {
            for environment in environment.map({ [$0.value] }) ?? [.production, .sandbox] {
                let stream = StreamKey(app: session.app.bundleId, environment: environment)
                accounts += try await Self.uncovered(in: stream, histories).map {
                    BackfillRun.Account(id: $0, environment: environment)
                }
            }
        }
        return try await BackfillRun(backfiller: backfiller, app: session.app).run(accounts)
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
