import ArgumentParser
import Encoding
import EventLog
import Foundation
import Server
import Subscriptions

struct EraseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Erase a person's data; a server may keep running.",
        discussion: """
            Replaces what names the person (customer ids, account tokens, app transaction ids, purchase tokens) by \
            pseudonyms, everywhere, and removes the bodies of the events that are about the person. Transaction ids of \
            Apple and order numbers of Google stay, unless --transactions is given; products, dates and prices stay in \
            any case. So do positions, times and digests: heads that were signed before still hold. One transaction does it and appends an event that says so. Shows what it \
            will do, and asks. Prints a JSON line for each app. Exit status 65 if nobody is known by the id; 69 if the \
            projections do not contain the whole log yet. Connects as the owner of the schema.

            With --transactions, those go, too. It is refused with exit status 69 while a store can still report one of the \
            subscriptions by its ids, and with 65 if one is or was another customer's, too, or the store names it together \
            with one.

            With --list, prints what was erased, without any id: keep it outside of the database. After a backup from \
            before was restored, --replay finds the same people in it and erases them again.
            """)

    @Option(help: ArgumentHelp("The app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("An id of the person.", valueName: "id"))
    var customer: String?

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp(
            "What the id is: \(CustomerKey.Kind.allCases.map(\.rawValue).joined(separator: ", ")). [link]",
            valueName: "kind"))
    var kind = CustomerKey.Kind.link

    @Option(help: ArgumentHelp("The environment: \(StreamEnvironment.names). [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(help: ArgumentHelp("The reason, which is recorded. It must not name the person.", valueName: "text"))
    var reason: String?

    @Flag(help: "Also replace the stores' own ids: of transactions, subscriptions, order lines and orders.")
    var transactions = false

    @Flag(help: "Print the erasures of the log, a JSON line for each app.")
    var list = false

    @Option(
        help: ArgumentHelp(
            "Repeat the erasures that --list printed, as far as this log still has the people's data.",
            valueName: "file"))
    var replay: String?

    @Option(
        help: ArgumentHelp("The operator, who is recorded. [the user of the operating system]", valueName: "name"))
    var by: String?

    @Flag(help: "Show what would be erased, and change nothing.")
    var dryRun = false

    @Flag(help: "Do not ask.")
    var yes = false

    @OptionGroup var archive: ArchiveFlags
    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        if let by { try WriteFlags.check(by, "--by") }
        guard !dryRun || !yes else { throw ValidationError("--dry-run and --yes exclude each other.") }
        if list || replay != nil {
            guard !list || replay == nil, app == nil, customer == nil, reason == nil, !transactions else {
                throw ValidationError(
                    "--list and --replay exclude each other, and --app, --customer, --reason and --transactions.")
            }
            return
        }
        guard app != nil, let customer, let reason else {
            throw ValidationError("expected --app, --customer and --reason, or --list or --replay.")
        }
        guard !customer.isEmpty else { throw ValidationError("--customer must not be empty.") }
        try WriteFlags.check(reason, "--reason")
        if reason.localizedCaseInsensitiveContains(customer) {
            throw ValidationError("--reason names the person: it stays in the log.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values.merging(archive.values) { first, _ in first })
            let erasures = try replay.map { try Self.erasures(inFile: $0) }
            try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withOwner { connection in
                    try await database.withOwner { listing in
                        let erasure = Erasure(
                            connection: connection, listing: listing, archive: database.archive)
                        do {
                            if list { return try await printRecords(erasure) }
                            if let erasures { return try await repeatAll(erasures, erasure) }
                            try await eraseCustomer(erasure)
                        } catch let failure as Erasure.Failure {
                            throw CommandProblem(failure.description, failure.exitCode)
                        }
                    }
                }
            }
        }
    }

    private func eraseCustomer(_ erasure: Erasure) async throws {
        guard let app, let customer, let reason else { return }
        let (key, environment) = (CustomerKey(kind, customer), environment?.value ?? .production)
        let progress = ProgressReport("erase", unit: "events")
        let scope = try await erasure.scope(
            of: key, app: app, environment: environment, replacesTransactions: transactions, at: SystemClock.now()
        ) {
            progress.update($0, of: $1)
        }
        try await show(scope, erasure)
        if let obstacle = scope.obstacle { throw obstacle }
        guard !dryRun, try isConfirmed() else { return }
        let order = Erasure.Order(
            now: { SystemClock.now() }, by: operatorName, reason: reason, random: Self.newBytes(),
            replacesTransactions: transactions)
        for outcome in try await erasure.erase(key, app: app, environment: environment, order) {
            show(outcome)
        }
        try await removeReplacedFiles(erasure)
    }

    private var operatorName: String { by ?? NSUserName() }

    /// What pseudonyms are made of.
    private static func newBytes() -> [UInt8] { (0..<16).map { _ in UInt8.random(in: .min ... .max) } }

    private func removeReplacedFiles(_ erasure: Erasure) async throws {
        do {
            try await erasure.removeReplacedFiles()
        } catch let error as ArchiveError {
            throw CommandProblem(
                "the erasure is done, but a replaced file still has the bodies: \(error): run `subledger archive --clean`",
                .unavailable)
        }
    }

    // MARK: The list

    private static func erasures(inFile name: String) throws -> [[Erasure.Record]] {
        guard let bytes = InputFile.read(name) else { throw CommandProblem("\(name): \(InputFile.unreadable)") }
        guard let erasures = Erasure.Record.erasures(inLines: bytes) else {
            throw CommandProblem("\(name): expected lines that `subledger erase --list` printed")
        }
        return erasures
    }

    private func printRecords(_ erasure: Erasure) async throws {
        for record in try await erasure.records() {
            var writer = JSONWriter()
            record.write(to: &writer)
            print(writer.text)
        }
    }

    /// Looks at all of them first, so that the operator sees what will be done.
    private func repeatAll(_ erasures: [[Erasure.Record]], _ erasure: Erasure) async throws {
        var people = 0
        var unexplained: [String] = []
        for records in erasures {
            let missing = try await erasure.missing(of: records)
            for repetition in missing.repetitions { try await show(repetition.scope, erasure) }
            people += missing.repetitions.count
            if missing.unexplained > 0 {
                unexplained.append("\(records[0].statement.pseudonym): \(missing.unexplained) events")
            }
        }
        if people == 0, unexplained.isEmpty { printError("nothing to erase again: erasures \(erasures.count)") }
        if people > 0, !dryRun, try isConfirmed() {
            for records in erasures {
                let statement = records[0].statement
                // Looked for again, since an erasure changes what the next one finds.
                for repetition in try await erasure.missing(of: records).repetitions {
                    let order = Erasure.Order(
                        now: { SystemClock.now() }, by: operatorName, reason: statement.reason,
                        random: repetition.random ?? Self.newBytes(),
                        replacesTransactions: statement.replacesTransactions, isRepeated: true)
                    let outcomes = try await erasure.erase(
                        repetition.key, app: repetition.app, environment: repetition.environment, order)
                    for outcome in outcomes { show(outcome) }
                }
            }
            try await removeReplacedFiles(erasure)
        }
        for line in unexplained {
            printError("\(line) are not one person's alone in this log: erase them by an id of the person")
        }
        if !unexplained.isEmpty { throw ExitCode.failure }
    }

    // MARK: What is shown

    private func show(_ scope: ErasureScope, _ erasure: Erasure) async throws {
        for part in scope.parts { show(part) }
        for file in try await erasure.archiveFiles(of: scope) { printError("archive file to write anew: \(file)") }
    }

    /// On stderr, so that stdout has what was done and nothing else.
    private func show(_ part: ErasureScope.Part) {
        guard !part.positions.isEmpty else { return }
        let kinds = Dictionary(grouping: part.keys, by: \.kind).mapValues(\.count)
        let ids = CustomerKey.Kind.allCases.compactMap { kind in kinds[kind].map { "\($0) \(kind.rawValue)" } }
        printError(
            """
            \(part.stream.app) (\(part.stream.environment.rawValue)): bodies to remove: \(part.positions.count), \
            subscriptions: \(part.lines.count), ids to replace: \(ids.isEmpty ? "none" : ids.joined(separator: ", "))
            """)
        if part.replacesTransactions {
            printError("ids of the stores to replace: \(part.transactions.count)")
        }
        if !part.kept.isEmpty {
            printError("\(part.kept.count) more ids stay, since they are another customer's now, or shared by many")
        }
    }

    private func isConfirmed() throws -> Bool {
        if yes { return true }
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandProblem("nothing was erased: repeat the command with --yes", .validationFailure)
        }
        printError("This cannot be undone. Erase? [y/N]")
        guard readLine()?.lowercased() == "y" else {
            printError("Nothing was erased.")
            return false
        }
        return true
    }

    private func show(_ outcome: Erasure.Outcome) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", outcome.stream.app)
            writer.member("environment", outcome.stream.environment.rawValue)
            writer.member("position", outcome.position)
            writer.member("pseudonym", outcome.statement.pseudonym)
            writer.member("ids", outcome.ids)
            writer.member("subscriptions", outcome.statement.subscriptions.count)
            writer.member("bodies", outcome.statement.positions.reduce(0) { $0 + $1.count })
            writer.member("at", outcome.statement.at)
        }
        print(writer.text)
    }
}

extension Erasure.Failure {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .behind, .busy, .open: .unavailable
        case .archived: .configurationError
        default: .dataError
        }
    }
}
