import ArgumentParser
import Encoding
import Foundation
import Server
import Simulation

@main
struct StoreSimulator: AsyncParsableCommand {
    private static let name = "store-simulator"

    static let configuration = CommandConfiguration(
        commandName: name,
        abstract: "Simulate the stores' notifications, post or write them, and compare a server's answers.",
        discussion: """
            Notifications follow stories (--list-stories) between January 2025 and June 2026, or in the year and a half \
            until another instant (--until); equal seeds give equal notifications. Version 2 is signed under a test root certificate (--write-root). Its keys are public: a \
            server that trusts it accepts notifications from anyone. Some customers have subscriptions that only a \
            backend links; the simulator sends these links between the notifications (--links). Import the product \
            configuration with `product import` (--write-products). The answers are those of a server that has the app's \
            ownership policy in its apps file (--ownership); with first-buyer, some links are expected to be answered 409. \
            Stories that version 1 does not cover are omitted \
            with --format v1, and sent in version 2 only with --format both.

            Each Apple Account of a story has receipts (--write-receipts). With --serve-store, the simulated App Store \
            answers them at /production/verifyReceipt and /sandbox/verifyReceipt. Set its clock with `PUT /clock`; \
            `GET /requests` returns the number of requests by receipt and answer. The store also serves the App Store \
            Server API at /production/inApps and /sandbox/inApps, to tokens of a test key (--write-api-key), and posts \
            its notifications when its clock passes them (--store-notifications).

            With --in-step, this command runs a server of its own, on a database of its own, and its clock is that of \
            the store. At each simulated time, notifications are delivered, apps hand receipts in, backends link, and \
            the subscriptions that are due are checked with the store. At the end the answers are compared.

            With --store google or both, --serve-store serves a simulated Google Play below /google: the token endpoint, \
            the keys of push tokens, and the Google Play Developer API to a service account (--write-service-account). \
            It pushes its messages like Pub/Sub when its clock passes them (--google-notifications).

            A run in step with --store google or both asks a simulated Google Play about every purchase that is due. \
            Pushes are lost, repeated and late (--lose, --duplicate, --order), requests fail (--store-faults), and the API or \
            the server is down for a day (--outage). Apps hand their purchases in, and the server acknowledges them: each must be \
            acknowledged within minutes after it was known, and none before it was granted. Google's answers do not \
            contain the time of some changes of a status; a server that shows the earlier status until it has asked is \
            explained by "time not stated".

            Requests that fail or are answered 5xx are retried five times. Exit status 69 if the server did not answer, \
            or a request failed after its retries; 65 if a request was rejected; 1 if a comparison found a difference \
            that lost notifications do not explain, or a link was accepted that should be answered 409.
            """)

    @Option(help: "Post notifications to this URL, for example http://127.0.0.1:8080/apple/notifications.")
    var url: String?

    @Option(
        help: ArgumentHelp(
            "Write notifications here instead, as JSON lines for `fold`: {\"receivedAt\": …, \"body\": …}; - is stdout.",
            valueName: "file"))
    var output: String?

    @Option(help: ArgumentHelp("Write the test root certificate here, as PEM.", valueName: "file"))
    var writeRoot: String?

    @Option(
        help: ArgumentHelp("Write the expected answers here, one JSON object per line.", valueName: "file"))
    var expected: String?

    @Option(
        help: ArgumentHelp(
            "Write the expected figures of the analyst views here, one JSON object per line.", valueName: "file"))
    var figures: String?

    @Option(
        help: ArgumentHelp(
            "Write the product configuration here, as CSV for `product import`.", valueName: "file"))
    var writeProducts: String?

    @Option(
        help: ArgumentHelp("Write the customer links here, one JSON object per line.", valueName: "file"))
    var writeLinks: String?

    @Option(
        help: ArgumentHelp(
            "Write the receipts that apps hand in here, in the order of time, one JSON object per line.",
            valueName: "file"))
    var writeReceipts: String?

    @Option(
        help: ArgumentHelp(
            "Write the customers' purchases here, as a hosted service exports them: CSV for `subledger import`.",
            valueName: "file"))
    var writeExport: String?

    @Option(
        help: ArgumentHelp(
            "Write what these customers are entitled to here, at --export-at: CSV for `subledger compare-access`.",
            valueName: "file"))
    var writeAccess: String?

    @Option(
        help: ArgumentHelp(
            """
            Write Apple's daily Sales reports, and Google's monthly sales and earnings, to this folder, for `subledger report \
            import`.
            """, valueName: "folder"))
    var writeReports: String?

    @Option(help: ArgumentHelp("The instant of --write-export and --write-access, ISO 8601.", valueName: "instant"))
    var exportAt = "2025-08-01T00:00:00Z"

    @Option(
        name: .customLong("write-api-key"),
        help: ArgumentHelp(
            "Write the private key of the simulated App Store Server API here, as PEM (.p8).", valueName: "file"))
    var writeAPIKey: String?

    @Option(
        help: ArgumentHelp(
            """
            After all other actions, serve the simulated App Store on this port of 127.0.0.1, print its address and run \
            until interrupted; 0 is any free port.
            """, valueName: "port"))
    var serveStore: Int?

    @Option(
        help: ArgumentHelp(
            """
            The fraction of requests to the store with a fault, 0 to 1: outages, temporary errors, answers that are cut \
            off, large, empty or marked as HTML.
            """, valueName: "fraction"))
    var storeFaults = 0.0

    @Option(
        help: ArgumentHelp(
            """
            The store posts its notifications of version 2 to this URL when its clock passes them, and retries as \
            Apple does. Its clock then starts before all stories. --lose, --order and --connections apply.
            """, valueName: "url"))
    var storeNotifications: String?

    @Flag(
        help: """
            Let the simulated time pass, from the first event to the last, for a store and a server of this command; \
            then compare the server's answers. Requires --data-folder or --database-url of an empty database.
            """)
    var inStep = false

    @Flag(
        name: .customLong("by-api"),
        help: """
            In a run in step, ask the App Store Server API about subscriptions, and not with receipts. The store itself posts \
            its notifications, with Apple's retries, and the server audits each day which ones it got.
            """)
    var byAPI = false

    @Flag(
        help: """
            In a run in step, restore the server's database once to what it contained three days before; the seed \
            determines when. Apps and backends then send again what they sent in these days. Requires --data-folder.
            """)
    var restore = false

    @Option(
        help: ArgumentHelp(
            "While posting, send customer links to this private listener. [the address of --compare]",
            valueName: "url"))
    var links: String?

    @Option(
        help: ArgumentHelp(
            "Compare all answers of this private listener, for example http://127.0.0.1:8081.", valueName: "url"))
    var compare: String?

    @Option(
        help: ArgumentHelp("The bearer token for the private listener. [SUBLEDGER_TOKEN]", valueName: "token"))
    var token: String?

    @OptionGroup(title: "Scenario options") var scenario: SimulationFlags

    @OptionGroup(title: "Options of --store google and --store both") var play: PlayFlags

    @OptionGroup(title: "Options of --in-step") var database: DatabaseFlags

    @Option(help: ArgumentHelp("Requests per second. [unlimited]", valueName: "number"))
    var rate: Double?

    @Option(help: "Concurrent connections. With 1, requests arrive exactly in order.")
    var connections = 16

    @Flag(help: "List the stories.")
    var listStories = false

    func validate() throws {
        guard url == nil || output == nil else { throw ValidationError("--url and --output exclude each other.") }
        guard
            listStories || [writeRoot, writeAPIKey, play.writeLicenseKey].contains(where: { $0 != nil }) || isSimulating
        else {
            throw ValidationError(
                "no action given: expected --url, --output, --write-root, --write-products, --write-links, "
                    + "--write-receipts, --write-api-key, --write-purchases, --write-export, --write-access, --expected, "
                    + "--figures, --compare, --serve-store, --in-step or --list-stories."
            )
        }
        guard exportInstant != nil else {
            throw ValidationError("invalid instant \"\(exportAt)\": expected one such as 2026-06-30T00:00:00Z.")
        }
        try validateStores()
        guard (0...65535).contains(serveStore ?? 0) else {
            throw ValidationError("--serve-store is out of range: expected 0 to 65535.")
        }
        guard storeFaults == 0 || serveStore != nil || inStep && scenario.store != .apple else {
            throw ValidationError("--store-faults requires --serve-store, or --in-step with --store google or both.")
        }
        let separate = [url, output, compare, links].contains { $0 != nil } || serveStore != nil
        guard !inStep || !separate else {
            throw ValidationError("--in-step excludes --url, --output, --links, --compare and --serve-store.")
        }
        let goesWrong = scenario.order != .inOrder || scenario.lose > 0 || storeFaults > 0 || byAPI || restore
        guard !inStep || scenario.until == nil || !(goesWrong || play.outage != nil) else {
            throw ValidationError(
                "--in-step with --until excludes --order, --lose, --store-faults, --by-api, --restore and --outage.")
        }
        guard inStep || !byAPI else { throw ValidationError("--by-api requires --in-step.") }
        guard !restore || inStep && database.databaseUrl == nil else {
            throw ValidationError("--restore requires --in-step with --data-folder.")
        }
        guard !byAPI || scenario.format == .v2 else { throw ValidationError("--by-api requires --format v2.") }
        guard !inStep || database.databaseUrl != nil || database.dataFolder != nil else {
            throw ValidationError("--in-step requires --data-folder or --database-url.")
        }
        guard (0...1).contains(storeFaults) else {
            throw ValidationError("--store-faults is out of range: expected 0 to 1.")
        }
        guard storeNotifications == nil || serveStore != nil else {
            throw ValidationError("--store-notifications requires --serve-store.")
        }
        guard links == nil || url != nil else { throw ValidationError("--links requires --url.") }
        guard (1...1000).contains(connections) else {
            throw ValidationError("--connections is out of range: expected 1 to 1000.")
        }
        guard rate.map({ $0 > 0 && $0 <= 1_000_000 }) ?? true else {
            throw ValidationError("--rate is out of range: expected more than 0 and at most 1000000.")
        }
        for address in [url, links, compare, storeNotifications].compactMap(\.self) {
            guard let parsed = URL(string: address), ["http", "https"].contains(parsed.scheme), parsed.host != nil
            else {
                throw ValidationError("invalid URL \"\(address)\": expected an http or https URL.")
            }
        }
    }

    private func validateStores() throws {
        guard scenario.store != .apple else {
            guard !play.isUsed else {
                throw ValidationError("options of Google Play require --store google or --store both.")
            }
            return
        }
        guard inStep || play.outage == nil else { throw ValidationError("--outage requires --in-step.") }
        guard play.writeServiceAccount == nil && play.googleNotifications == nil || serveStore != nil else {
            throw ValidationError("--write-service-account and --google-notifications require --serve-store.")
        }
        let ofApple = [url, output, writeLinks, writeReceipts, storeNotifications]
        guard scenario.store == .both || ofApple.allSatisfy({ $0 == nil }) else {
            throw ValidationError(
                "--store google excludes the options of the App Store: expected --serve-store, --in-step, --compare, "
                    + "--expected, --figures, --write-products, --write-purchases or --list-stories.")
        }
    }

    func run() async throws {
        if listStories { printStories() }
        try await reportingFailures(of: StoreSimulator.name) {
            if let writeRoot { try OutputFile.write(TestCertificates.standard.rootPEM, to: writeRoot) }
            if let writeAPIKey { try OutputFile.write(SimulatedAPIKey.standard.pem, to: writeAPIKey) }
            if let name = play.writeLicenseKey { try OutputFile.write(SignedPlayPurchase.publicKey() + "\n", to: name) }
            guard isSimulating else { return }
            let simulation =
                scenario.store == .google ? nil : try scenario.simulation(isInStep: inStep, losesNothing: byAPI)
            let google =
                scenario.store == .apple ? nil : try scenario.playSimulation(play, joined: simulation, isInStep: inStep)
            if inStep { try await runInStep(simulation, google) }
            if let google, let name = play.writePurchases { try PlayFiles.writePurchases(of: google, to: name) }
            if let writeProducts { try SimulationFiles.writeProducts(of: simulation, google, to: writeProducts) }
            if writeExport != nil || writeAccess != nil, let exportInstant {
                let export = ServiceExport(simulation, google, at: exportInstant)
                if let writeExport { try export.writePurchases(to: writeExport) }
                if let writeAccess { try export.writeAccess(to: writeAccess) }
            }
            if let writeReports, !inStep {
                try SimulationFiles.writeReports(of: simulation, google, to: writeReports)
            }
            if let expected, !inStep { try SimulationFiles.writeAnswers(of: simulation, google, to: expected) }
            if let figures, !inStep { try SimulationFiles.writeFigures(of: simulation, google, to: figures) }
            if let google, let compare { try await self.compare(google, at: compare) }
            if let simulation { try await simulate(simulation) }
            if let serveStore { try await serve(simulation, google, port: serveStore) }
        }
    }

    private func printStories() {
        func printStory(_ name: String, _ summary: String) {
            print(name.padding(toLength: 30, withPad: " ", startingAt: 0) + summary)
        }
        if scenario.store != .google {
            for story in Story.allCases {
                let marks = [
                    story.isCompleteInVersion1 ? nil : "version 2 only",
                    story.isFromDocumentation ? "by documentation alone" : nil,
                ].compactMap(\.self)
                printStory(story.name, story.summary + (marks.isEmpty ? "" : " [\(marks.joined(separator: ", "))]"))
            }
        }
        if scenario.store != .apple {
            for story in PlayStory.allCases {
                printStory(story.name, story.summary + (scenario.store == .both ? " [Google Play]" : ""))
            }
        }
    }

    private var exportInstant: Instant? { Instant(iso8601: exportAt) }

    /// Whether an action needs the stories.
    private var isSimulating: Bool {
        let files = [
            output, writeProducts, writeLinks, writeReceipts, writeExport, writeAccess, writeReports,
            play.writePurchases,
            expected, figures,
        ]
        return inStep || serveStore != nil || (files + [url, compare]).contains { $0 != nil }
    }

    private func simulate(_ simulation: Simulation) async throws {
        let token = Settings(flags: settings([(["token"], token)])).token
        if let writeLinks { try SimulationFiles.writeLinks(of: simulation, to: writeLinks) }
        if let writeReceipts { try SimulationFiles.writeReceipts(of: simulation, to: writeReceipts) }
        if let output { try SimulationFiles.writeDeliveries(of: simulation, to: output) }
        var hasRejected = false
        var hasFailed = false
        var hasAccepted = false
        if let url {
            let target = (links ?? compare).map {
                LinkTarget(address: $0, token: token, app: simulation.settings.app)
            }
            let poster = NotificationPoster(url: url, links: target, connections: connections, rate: rate)
            let steps = simulation.steps
            let outcome = await poster.post(steps) { printError($0.description(of: steps.count)) }
            guard outcome.posted.answered > 0 || simulation.deliveries.isEmpty else {
                printError("store-simulator: no answer from \(url)")
                throw ExitCode.unavailable
            }
            printError(outcome.posted.description())
            let statements = simulation.steps.count - simulation.deliveries.count
            if statements > 0 {
                printError(
                    target == nil
                        ? "\(statements) link statements not sent: expected --links or --compare"
                        : outcome.linked.description("sent link statements"))
            }
            hasRejected = outcome.all.rejected > 0
            hasFailed = outcome.all.failed > 0
            hasAccepted = outcome.all.wronglyAccepted > 0
        }
        if let compare {
            let comparison = AnswerComparison(
                simulation: simulation, address: compare, token: token, connections: connections)
            let outcome = try await outcome(of: comparison, at: compare)
            if !hasFailed, !hasRejected, outcome.unexplained > 0 { throw ExitCode.failure }
        }
        if hasFailed { throw ExitCode.unavailable }
        if hasRejected { throw ExitCode.dataError }
        if hasAccepted { throw ExitCode.failure }
    }
}

extension StoreListenError: CommandError {
    package var exitCode: ExitCode { .unavailable }
}
