import ArgumentParser
import Foundation
import StoreSimulator
import Subscriptions

struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Play the App Store: make up notifications, post or write them, and compare what became of them.",
        discussion: """
            Notifications tell stories of customers (--list-stories), all of them between January 2025 and June 2026, \
            and come out the same for the same seed. Those of version 2 are signed under a make-believe root \
            (--write-root). Its keys are public: a server that trusts it takes notifications from everybody. Some \
            customers have lines that only their backend ties together: it states these links between the \
            notifications. What products entitle to is for `product import` to tell the server (--write-products). Stories \
            that version 1 does not tell in full are left out of --format v1, and are told in version 2 alone by \
            --format both.

            Answers of 5xx and failed connections are tried again five times. The exit status is 69 if there was \
            nobody to post to, or not for all; 65 if something was refused; 1 if a comparison found a difference on \
            lines that lost nothing.
            """)

    @Option(help: "Post here, for example http://127.0.0.1:8080/apple/notifications.")
    var url: String?

    @Option(
        help: ArgumentHelp(
            "Or write here, as lines that `fold` reads: {\"receivedAt\": …, \"body\": …}; - is standard output.",
            valueName: "file"))
    var output: String?

    @Option(help: ArgumentHelp("Write the make-believe root certificate here, as PEM.", valueName: "file"))
    var writeRoot: String?

    @Option(
        help: ArgumentHelp("Write the right answers here, one JSON object a line.", valueName: "file"))
    var expected: String?

    @Option(
        help: ArgumentHelp("Write the right figures of the views for analysts here.", valueName: "file"))
    var figures: String?

    @Option(
        help: ArgumentHelp(
            "Write what products entitle to here, as CSV that `product import` reads.", valueName: "file"))
    var writeProducts: String?

    @Option(
        help: ArgumentHelp("Write the links that backends state here, one JSON object a line.", valueName: "file"))
    var writeLinks: String?

    @Option(
        help: ArgumentHelp(
            "Put links to the private listener there while posting. [the address of --compare]", valueName: "url"))
    var links: String?

    @Option(
        help: ArgumentHelp(
            "Ask the private listener there for every answer, for example http://127.0.0.1:8081.", valueName: "url"))
    var compare: String?

    @Option(
        help: ArgumentHelp("Shown to the private listener as a bearer token. [SUBLEDGER_TOKEN]", valueName: "token"))
    var token: String?

    @OptionGroup(title: "What is told") var told: SimulationFlags

    @Option(help: ArgumentHelp("Notifications a second. [as fast as they are taken]", valueName: "number"))
    var rate: Double?

    @Option(help: "How many to post at the same time. With 1 they arrive in their order exactly.")
    var connections = 16

    @Flag(help: "Name the stories, and what they tell.")
    var listStories = false

    func validate() throws {
        guard url == nil || output == nil else { throw ValidationError("Give either --url or --output.") }
        let actions = [url, output, writeRoot, writeProducts, writeLinks, expected, figures, compare]
        guard listStories || actions.contains(where: { $0 != nil }) else {
            throw ValidationError(
                "Give --url, --output, --write-root, --write-products, --write-links, --expected, --figures, "
                    + "--compare or --list-stories.")
        }
        guard links == nil || url != nil else { throw ValidationError("--links goes with --url.") }
        guard (1...1000).contains(connections) else {
            throw ValidationError("--connections must be a number from 1 to 1000.")
        }
        guard rate.map({ $0 > 0 && $0 <= 1_000_000 }) ?? true else {
            throw ValidationError("--rate must be larger than 0, and 1000000 at most.")
        }
        for address in [url, links, compare].compactMap(\.self) {
            guard let parsed = URL(string: address), ["http", "https"].contains(parsed.scheme), parsed.host != nil
            else {
                throw ValidationError("\(address) is not an address such as http://127.0.0.1:8080/apple/notifications.")
            }
        }
    }

    func run() async throws {
        if listStories {
            for story in Story.allCases {
                let name = story.name.padding(toLength: 30, withPad: " ", startingAt: 0)
                print(name + story.summary + (story.isTellableInVersion1 ? "" : " [version 2 only]"))
            }
        }
        try await reportingFailures {
            if let writeRoot { try OutputFile.write(TestCertificates.standard.rootPEM, to: writeRoot) }
            guard [url, output, writeProducts, writeLinks, expected, figures, compare].contains(where: { $0 != nil })
            else { return }
            try await simulate(try told.simulation())
        }
    }

    private func simulate(_ simulation: Simulation) async throws {
        let token = Settings(flags: settings([(["token"], token)])).token
        if let writeProducts { try SimulationFiles.writeProducts(of: simulation.settings.app, to: writeProducts) }
        if let writeLinks { try SimulationFiles.writeLinks(of: simulation, to: writeLinks) }
        if let expected { try SimulationFiles.writeAnswers(of: simulation, to: expected) }
        if let figures { try SimulationFiles.writeFigures(of: simulation, to: figures) }
        if let output { try SimulationFiles.writeDeliveries(of: simulation, to: output) }
        var hasRefused = false
        var hasFailed = false
        if let url {
            let target = (links ?? compare).map {
                LinkTarget(address: $0, token: token, app: simulation.settings.app)
            }
            let poster = NotificationPoster(url: url, links: target, connections: connections, rate: rate)
            let outcome = await poster.post(simulation.steps)
            guard outcome.posted.answered > 0 || simulation.deliveries.isEmpty else {
                printError("subledger: nobody answers at \(url)")
                throw ExitCode.unavailable
            }
            printError(outcome.posted.description())
            let statements = simulation.steps.count - simulation.deliveries.count
            if statements > 0 {
                printError(
                    target == nil
                        ? "\(statements) links not stated: give --links"
                        : outcome.stated.description("stated links"))
            }
            hasRefused = outcome.all.refused > 0
            hasFailed = outcome.all.failed > 0
        }
        if let compare {
            let comparison = AnswerComparison(
                simulation: simulation, address: compare, token: token, connections: connections)
            let outcome = try await comparison.run()
            for difference in outcome.differences { print(difference.description) }
            print(outcome.description)
            if !hasFailed, !hasRefused, outcome.counting > 0 { throw ExitCode.failure }
        }
        if hasFailed { throw ExitCode.unavailable }
        if hasRefused { throw ExitCode.dataError }
    }
}
