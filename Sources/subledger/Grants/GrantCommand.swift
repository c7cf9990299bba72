import ArgumentParser
import Encoding
import EventLog
import Foundation
import Server
import Subscriptions

struct GrantCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grant",
        abstract: "Give a customer access by hand, or take it back; a server may keep running.",
        discussion: """
            The grant is an event of the log, with the operator and the reason. It is in entitlements, the change feed and \
            explanations, and in no figure of payments. With the id of an earlier grant, it replaces it. Prints a JSON \
            line with the id and the position of the event. Exit status 65 if there is no such grant, or if it is one of \
            another customer.
            """)

    @Option(help: ArgumentHelp("The app.", valueName: "bundle-id"))
    var app: String

    @Option(help: ArgumentHelp("The backend's id of the customer.", valueName: "id"))
    var customer: String?

    @Option(help: ArgumentHelp("What the customer gets.", valueName: "name"))
    var entitlement: String?

    @Option(help: ArgumentHelp("The start, ISO 8601. [now]", valueName: "instant"))
    var from: Instant?

    @Option(help: ArgumentHelp("The end, ISO 8601.", valueName: "instant"))
    var until: Instant?

    @Option(help: ArgumentHelp("Days from the start on, instead of --until.", valueName: "number"))
    var days: Int?

    @Flag(help: "Without an end, instead of --until.")
    var forever = false

    @Option(
        help: ArgumentHelp(
            "The id of the grant: up to 64 letters, digits, dots, hyphens and underscores. [a new UUID]",
            valueName: "id"))
    var id: String?

    @Option(help: ArgumentHelp("Take the grant with this id back instead.", valueName: "id"))
    var revoke: String?

    @Option(help: ArgumentHelp("The reason, which is recorded.", valueName: "text"))
    var reason: String

    @Option(
        help: ArgumentHelp("The operator, who is recorded. [the user of the operating system]", valueName: "name"))
    var by: String?

    @Option(help: ArgumentHelp("The environment: \(StreamEnvironment.names). [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        help: ArgumentHelp("JSON file with the apps, as for `serve`. [SUBLEDGER_APPS_FILE]", valueName: "file"))
    var appsFile: String?

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        let ends = [until != nil, days != nil, forever].count { $0 }
        guard revoke == nil else {
            guard entitlement == nil, from == nil, ends == 0, id == nil else {
                throw ValidationError("--revoke excludes the options of a new grant.")
            }
            return
        }
        guard customer != nil, entitlement != nil else {
            throw ValidationError("--customer and --entitlement are required, or --revoke.")
        }
        guard ends == 1 else { throw ValidationError("Exactly one of --until, --days and --forever is required.") }
        guard (1...36_500).contains(days ?? 1) else {
            throw ValidationError("--days is out of range: expected 1 to 36500.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let own = settings([(["apps", "file"], appsFile)])
            let settings = Settings(flags: database.values.merging(own) { first, _ in first })
            let stream = StreamKey(app: app, environment: environment?.value ?? .production)
            let id = revoke ?? id ?? UUID().uuidString.lowercased()
            let outcome = try await GrantServices.with(settings) { service in
                guard service.accepts(app) else { throw SettingError(description: "app \(app) is not configured") }
                do {
                    return try await state(id, in: stream, service)
                } catch let malformed as GrantStatement.Malformed {
                    throw CommandProblem(malformed.description)
                }
            }
            let (position, isNew): (Int64, Bool)
            switch outcome {
            case .stated(let stated, let isFirst): (position, isNew) = (stated, isFirst)
            case .otherCustomer: throw CommandProblem("the id is of a grant to another customer")
            case .unknownEntitlement: throw CommandProblem("no product of the app gives this entitlement")
            case .unknownGrant: throw CommandProblem("no such grant")
            }
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("app", stream.app)
                writer.member("environment", stream.environment.rawValue)
                writer.member("grantId", id)
                writer.member("position", position)
                writer.member("duplicate", !isNew)
            }
            print(writer.text)
        }
    }

    private func state(
        _ id: String, in stream: StreamKey, _ service: GrantService
    ) async throws -> GrantService.Outcome {
        let now = SystemClock.now()
        let operatorName = by ?? NSUserName()
        if revoke != nil {
            return try await service.revoke(
                id, of: customer, reason: reason, by: operatorName, source: .operator, in: stream, receivedAt: now)
        }
        let start = from ?? now
        let grant = try GrantStatement(
            id: id, customerId: customer ?? "", entitlement: entitlement ?? "", from: start,
            until: days.map { start.advanced(by: .seconds($0 * 86_400)) } ?? until, reason: reason, by: operatorName)
        return try await service.give(grant, source: .operator, in: stream, receivedAt: now)
    }
}
