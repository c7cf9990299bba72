import ArgumentParser
import Foundation
import Projector
import Subscriptions

struct ProjectorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "projector",
        abstract: "See how far the log is folded, and have it go on after an event that cannot be.",
        subcommands: [ProjectorStatus.self, ProjectorSkip.self])
}

struct ProjectorStatus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "One line a stream: app, environment, head of the log, folded up to, lag, skipped events.")

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withConnection(.reader) { connection in
                    for stream in try await StreamStatus.all(on: connection) { print(stream) }
                }
            }
        }
    }
}

struct ProjectorSkip: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "skip",
        abstract: "Have the projector pass over one event.",
        discussion: """
            For an event at which the projector stopped, as the server's log says. The decision is recorded, and cannot \
            be taken back; the event stays in the log. Exit status 65 if there is no such event, or it is folded or \
            skipped already.
            """)

    @Argument(help: "The event's position in its stream.")
    var position: Int64

    @Option(help: ArgumentHelp("The app of the stream.", valueName: "bundle-id"))
    var app: String

    @Option(help: ArgumentHelp("Its environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment

    @Option(help: ArgumentHelp("Why, for whoever reads it later.", valueName: "text"))
    var reason: String

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard reason.contains(where: { !$0.isWhitespace }) else { throw ValidationError("--reason must say why.") }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values)
            let decision = SkipDecision(
                stream: StreamKey(app: app, environment: environment.value), position: position, reason: reason,
                decidedBy: NSUserName())
            try await Database.withExisting(settings, logger: try settings.logger()) { database in
                try await database.withConnection(.projector) { try await decision.record(on: $0) }
            }
            print("position \(position) of \(app), \(environment.value.rawValue) is skipped")
        }
    }
}
