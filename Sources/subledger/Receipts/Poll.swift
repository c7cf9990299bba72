import AppStore
import ArgumentParser
import Encoding
import EventLog
import Logging
import StoreClient
import Subscriptions

struct Poll: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask the App Store about a subscription now; a server may keep running.",
        discussion: """
            Prints the result as a JSON object, records the check, and stores the answer as an event if it states \
            something new. Its schedule is unchanged, except by a new event. Configure the app with its key or its \
            shared secret as for `serve`. Exit status 65 if the subscription is unknown, no receipt of it is stored, or \
            the App Store refuses the question; 69 if the App Store or the database cannot be asked; 78 if the App Store \
            rejects the key or the shared secret.
            """)

    @Option(help: ArgumentHelp("The app.", valueName: "bundle-id"))
    var app: String

    @Option(help: ArgumentHelp("The subscription.", valueName: "original-transaction-id"))
    var subscription: String

    @Option(help: ArgumentHelp("Its environment: production or sandbox. [the one that has it]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        help: ArgumentHelp("JSON file with the apps, as for `serve`. [SUBLEDGER_APPS_FILE]", valueName: "file"))
    var appsFile: String?

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let flags = database.values.merging(settings([(["apps", "file"], appsFile)])) { first, _ in first }
            let settings = Settings(flags: flags)
            let app = try settings.app(self.app)
            let checked = try await StoreSession.with(app, settings) { session in try await check(session) }
            guard let (environment, checked) = checked else {
                printError("subledger: no subscription \(subscription) of \(app.bundleId) is known")
                throw ExitCode.dataError
            }
            print(line(checked, environment))
            if let problem = Self.problem(checked.record.result) {
                printError("subledger: \(problem.text)")
                throw problem.exitCode
            }
        }
    }

    /// Asks in the first environment that has the subscription; nil if none has.
    private func check(_ session: StoreSession) async throws -> (Subscriptions.Environment, Checker.Checked)? {
        let checker = Checker(
            apps: [session.app], store: session.store, verifier: session.verifier, pool: session.poller,
            appender: session.appender, logger: session.logger)
        for candidate in environment.map({ [$0.value] }) ?? [.production, .sandbox] {
            if let checked = try await checker.checkNow(subscription, of: session.app, in: candidate) {
                return (candidate, checked)
            }
        }
        return nil
    }

    private func line(_ checked: Checker.Checked, _ environment: Subscriptions.Environment) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("environment", environment.rawValue)
            writer.member("originalTransactionId", subscription)
            writer.member("result", checked.record.result.label)
            writer.member("status", checked.record.status)
            writer.member("position", checked.record.result.position)
            writer.member("nextAt", checked.nextAt)
        }
        return writer.text
    }

    /// Why there is no answer; nil if there is one.
    private static func problem(_ result: CheckResult) -> (text: String, exitCode: ExitCode)? {
        switch result {
        case .unchanged, .appended: nil
        case .noReceipt: ("no receipt of the subscription is stored", .dataError)
        case .refused: ("the App Store refuses the question, or a check refuses its answer", .dataError)
        case .secretRejected: ("the App Store rejects the shared secret of the app", .configurationError)
        case .keyRejected: ("the App Store rejects the key of the app", .configurationError)
        case .notFound: ("the App Store does not know the subscription", .dataError)
        case .unreadable: ("the answer of the App Store cannot be read", .unavailable)
        case .unavailable: ("the App Store cannot be asked now", .unavailable)
        }
    }
}
