import ArgumentParser
import Encoding
import EventLog
import Readers
import Server
import Subscriptions

struct Explain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Explain why a customer has an entitlement or does not.",
        discussion: """
            Prints one paragraph for each entitlement: the rules that decide, with the events that are their evidence, \
            what may seem to contradict the answer, and what the clock could change. Without --entitlement, explains \
            every entitlement that purchases of the customer grant or would grant. Exit status 65 if no customer, or \
            more than one, has the id.
            """)

    @Argument(help: "An id of the customer: the backend's own, or one of Apple's.")
    var customerId: String

    @Option(help: ArgumentHelp("Only this entitlement.", valueName: "name"))
    var entitlement: String?

    @Option(help: ArgumentHelp("Evaluate as of this instant, ISO 8601. [now]", valueName: "instant"))
    var at: Instant?

    @Option(help: ArgumentHelp("Use only events received by this instant.", valueName: "instant"))
    var knownAt: Instant?

    @Option(help: ArgumentHelp("The app. Needed only if several apps have the id.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("The environment: \(StreamEnvironment.names). [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp(
            "What the id is: \(CustomerKey.Kind.allCases.map(\.rawValue).joined(separator: ", ")). [any]",
            valueName: "kind"))
    var kind: CustomerKey.Kind?

    @Flag(help: "Print one JSON object per line instead.")
    var json = false

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        if entitlement?.isEmpty ?? false { throw ValidationError("--entitlement must not be empty.") }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let logger = try settings.logger()
            let reference = CustomerReader.Reference(
                app: app, environment: environment?.value ?? .production, id: customerId, kind: kind)
            let question = CustomerReader.Question(reference, at: at ?? SystemClock.now())
            let answer = try await Database.withExisting(settings, logger: logger) { database in
                let pool = database.pool(.reader, limit: 1, logger: logger)
                do {
                    let answer = try await CustomerReader(pool: pool).explanations(
                        question, of: entitlement, knownAt: knownAt)
                    await pool.close()
                    return answer
                } catch {
                    await pool.close()
                    throw error
                }
            }
            try show(answer, reference)
        }
    }

    private func show(
        _ answer: CustomerReader.Answer<CustomerReader.Explained>, _ reference: CustomerReader.Reference
    ) throws {
        let customer: CustomerReader.Explained
        switch answer {
        case .found(let found): customer = found
        case .unknown:
            printError("subledger: no customer with this id in \(reference.environment.rawValue)")
            throw ExitCode.dataError
        case .severalApps(let apps):
            printError("subledger: several apps have this id: choose one with --app (\(apps.joined(separator: ", ")))")
            throw ExitCode.dataError
        case .severalKinds(let kinds):
            let names = kinds.map(\.rawValue).joined(separator: ", ")
            printError("subledger: different customers have this id: choose one with --as (\(names))")
            throw ExitCode.dataError
        }
        for explanation in customer.explanations {
            guard json else {
                print(explanation.sentence)
                continue
            }
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("app", customer.identity.app)
                writer.member("joinedApp", customer.identity.joinedApp)
                writer.member("environment", reference.environment.rawValue)
                writer.member("customerId", reference.id)
                writer.member("knownAs", customer.identity.knownAs.rawValue)
                explanation.writeMembers(to: &writer)
            }
            print(writer.text)
        }
        if customer.explanations.isEmpty, !json { print("no purchase of the customer grants an entitlement") }
    }
}

extension CustomerKey.Kind: ExpressibleByArgument {}
