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
            let answer = try await OrderServices.with(store.merged) { lookup, reader in
                try await OrderSearch(reader: reader, apps: lookup.apps(for: number)) { number, app in
                    try await lookup.find(number, of: app)
                }.purchases(of: number, app: app)
            }
            switch answer {
            case .found(let purchases, _): for purchase in purchases { print(Self.line(number, purchase)) }
            case .notFound(let outcomes):
                for (app, outcome) in outcomes { printError("subledger: \(outcome.problem(number, of: app) ?? "")") }
                throw outcomes.map(\.outcome.exitCode).max { $0.rawValue < $1.rawValue } ?? ExitCode.dataError
            case .noApp:
                throw SettingError(
                    description:
                        "no app with a key for \(number.store.shop) is configured\(app.map { " as \($0)" } ?? "")")
            }
        }
    }

    private static func line(_ number: OrderNumber, _ purchase: OrderSearch.Purchase) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", purchase.app)
            writer.member("environment", purchase.environment)
            writer.member("orderId", number.text)
            writer.member("originalTransactionId", purchase.originalTransactionId)
            writer.member("position", purchase.position)
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
