import ArgumentParser
import Encoding
import EventLog
import Readers
import Server
import StoreClient
import Subscriptions

struct OrderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "order",
        abstract: "Find the purchases of an order by the number that a customer names; a server may keep running.",
        discussion: """
            An order of Google Play is looked for in the ledger first. Any other one, and all orders of the App Store, \
            whose purchases do not name their order, are asked of the store of each configured app, in production. What \
            the store answers is stored if it is news. Prints a JSON line for each purchase. Exit status 65 if the store \
            has no such order of the app or refuses the number; 69 if the store or the database cannot be asked; 78 if no \
            app has a key or credentials for the store, or the store rejects them.
            """)

    @Argument(help: "The order number, such as MK5TTTVWJH or GPA.1234-5678-9012-34567.")
    var number: String

    @Option(help: ArgumentHelp("Only this app. [each of the order's store]", valueName: "bundle-id"))
    var app: String?

    @OptionGroup var store: StoreFlags

    func validate() throws {
        guard OrderNumber(number) != nil else {
            throw ValidationError(
                "The order number is not one of a store: expected letters and digits, or GPA. with digits.")
        }
    }

    func run() async throws {
        guard let number = OrderNumber(number) else { return }
        try await reportingFailures {
            let answers = try await OrderServices.with(store.merged) { lookup, reader in
                try await find(number, lookup, reader)
            }
            for answer in answers { for line in answer.lines { print(line) } }
            let found = answers.contains { !$0.lines.isEmpty }
            guard !found else { return }
            for answer in answers { printError("subledger: \(answer.problem?.text ?? "")") }
            throw answers.compactMap({ $0.problem?.exitCode }).max { $0.rawValue < $1.rawValue } ?? ExitCode.dataError
        }
    }

    /// What is known of the order in one app.
    private struct Answer: Sendable {
        var lines: [String] = []
        var problem: (text: String, exitCode: ExitCode)?
    }

    private func find(
        _ number: OrderNumber, _ lookup: OrderLookup, _ reader: ConsoleReader
    ) async throws -> [Answer] {
        let apps = lookup.apps(for: number).filter { app == nil || $0 == app }
        if number.store == .google {
            let known = try await reader.search(number.text).filter { app == nil || $0.app == app }
            let lines = known.compactMap { hit -> String? in
                guard case .customer(let id, _) = hit.target else { return nil }
                return Self.line(number, app: hit.app, environment: hit.environment, id, position: nil)
            }
            if !lines.isEmpty { return [Answer(lines: lines)] }
        }
        guard !apps.isEmpty else {
            throw SettingError(
                description: "no app with a key for \(number.store.shop) is configured\(app.map { " as \($0)" } ?? "")")
        }
        var answers: [Answer] = []
        for app in apps {
            let outcome = try await lookup.find(number, of: app)
            if case .found(let answer) = outcome {
                answers.append(
                    Answer(
                        lines: answer.subscriptions.map { id in
                            Self.line(
                                number, app: app, environment: answer.stream.environment.rawValue, id,
                                position: answer.position)
                        }))
            } else {
                answers.append(Answer(problem: (outcome.problem(number, of: app) ?? "", outcome.exitCode)))
            }
        }
        return answers
    }

    private static func line(
        _ number: OrderNumber, app: String, environment: String, _ id: String, position: Int64?
    ) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("environment", environment)
            writer.member("orderId", number.text)
            writer.member("originalTransactionId", id)
            writer.member("position", position)
        }
        return writer.text
    }
}

extension OrderOutcome {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .found: .success
        case .noPurchase, .notOfApp, .refused, .unverified: .dataError
        case .pending, .unavailable: .unavailable
        case .keyRejected: .configurationError
        }
    }
}
