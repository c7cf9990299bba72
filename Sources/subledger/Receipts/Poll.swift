import AppStore
import ArgumentParser
import Encoding
import EventLog
import Logging
import PlayStore
import Server
import StoreClient
import Subscriptions

struct Poll: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask the store about a subscription or purchase now; a server may keep running.",
        discussion: """
            Prints the result as a JSON object, records the check, and stores the answer as an event if it states \
            something new. The schedule is unchanged, except by a new event. Google Play is asked about the order, too, \
            and a purchase that is not acknowledged is. Configure the app with its key, its shared secret or its \
            credentials as for `serve`. Exit status 65 if the subscription is unknown, no receipt of it is stored, or \
            the store refuses the question; 69 if the store or the database cannot be asked; 78 if the store rejects \
            the key, the shared secret or the credentials.
            """)

    @Option(help: ArgumentHelp("The app.", valueName: "bundle-id or package-name"))
    var app: String

    @Option(help: ArgumentHelp("The subscription.", valueName: "original-transaction-id or purchase-token"))
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
            if let google = try settings.googleApps().first(where: { $0.packageName == self.app }) {
                return try await askGoogle(google, settings)
            }
            let app = try settings.app(self.app)
            let checked = try await StoreSession.with(app, settings) { session in try await check(session) }
            guard let (environment, checked) = checked else {
                try reportUnknown()
            }
            print(
                line(
                    environment, checked.record.result.label, checked.record.status, checked.record.result.position,
                    checked.nextAt))
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
            archive: session.archive, appender: session.appender, logger: session.logger)
        for candidate in environment.map({ [$0.value] }) ?? [.production, .sandbox] {
            if let checked = try await checker.checkNow(subscription, of: session.app, in: candidate) {
                return (candidate, checked)
            }
        }
        return nil
    }

    private func askGoogle(_ app: GoogleApp, _ settings: Settings) async throws {
        guard app.credentials != nil else {
            throw SettingError(description: "app \(app.packageName) has no credentials in the apps file")
        }
        guard environment == nil else {
            throw ValidationError("--environment is for the App Store: Google Play states it.")
        }
        guard let token = PurchaseToken(subscription) else {
            throw ValidationError("--subscription must be a purchase token of visible ASCII characters")
        }
        let checked = try await GoogleHandInServices.with(settings) { google in
            try await google.purchases.checkNow(token, of: app)
        }
        let record: PurchaseRecord
        switch checked {
        case .asked(let asked): record = asked
        case .unknown: try reportUnknown()
        case .notAsked:
            printError("subledger: Google Play has not answered: try again in a minute")
            throw ExitCode.unavailable
        }
        print(
            line(
                record.environment, record.result.rawValue, record.status, record.position,
                record.next?.at ?? record.plannedAt))
        if let problem = Self.problem(record.result) {
            printError("subledger: \(problem.text)")
            throw problem.exitCode
        }
    }

    private func reportUnknown() throws -> Never {
        printError("subledger: no subscription \(subscription) of \(app) is known")
        throw ExitCode.dataError
    }

    private func line(
        _ environment: Subscriptions.Environment?, _ result: String, _ status: Int32?, _ position: Int64?,
        _ nextAt: Instant?
    ) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("environment", environment?.rawValue)
            writer.member("originalTransactionId", subscription)
            writer.member("result", result)
            writer.member("status", status)
            writer.member("position", position)
            writer.member("nextAt", nextAt)
        }
        return writer.text
    }

    /// The same for Google Play.
    private static func problem(_ result: PurchaseResult) -> (text: String, exitCode: ExitCode)? {
        switch result {
        case .unchanged, .appended: nil
        case .notFound: ("Google Play does not know the purchase", .dataError)
        case .gone: ("Google Play no longer answers about the purchase", .dataError)
        case .refused: ("the purchase is not one of this app", .dataError)
        case .credentialsRejected: ("Google Play rejects the credentials of the app", .configurationError)
        case .forbidden: ("the account of the credentials may not ask about the app", .configurationError)
        case .unreadable: ("the answer of Google Play cannot be read", .unavailable)
        case .unavailable: ("Google Play cannot be asked now", .unavailable)
        }
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
