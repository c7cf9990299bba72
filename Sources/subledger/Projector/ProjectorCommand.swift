import ArgumentParser
import Foundation
import Projector
import Server
import Subscriptions

struct ProjectorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "projector",
        abstract: "Show projection progress; skip an event that cannot be processed.",
        subcommands: [ProjectorStatus.self, ProjectorSkip.self])
}

struct ProjectorStatus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Print one line per stream: app, environment, head of the log, checkpoint, lag, skipped events.")

    @OptionGroup var database: DatabaseFlags

    func run() async throws {
        try await reportingFailures {
            try await database.withConnection(.reader) { connection in
                for stream in try await StreamStatus.all(on: connection) { print(stream) }
            }
        }
    }
}

struct ProjectorSkip: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "skip",
        abstract: "Skip an event that the projector cannot fold.",
        discussion: """
            Use it for an event at which the projector stopped, according to the server's log. The decision is \
            recorded and cannot be undone; the event stays in the log. Exit status 65 if there is no such event, or \
            if it is already folded or skipped.
            """)

    @Argument(help: "The event's position in its stream.")
    var position: Int64

    @Option(help: ArgumentHelp("The app of the stream.", valueName: "bundle-id"))
    var app: String

    @Option(help: ArgumentHelp("Its environment: \(StreamEnvironment.names).", valueName: "name"))
    var environment: StreamEnvironment

    @Option(help: ArgumentHelp("The reason, which is recorded with the decision.", valueName: "text"))
    var reason: String

    @OptionGroup var database: DatabaseFlags

    func validate() throws {
        guard reason.contains(where: { !$0.isWhitespace }) else { throw ValidationError("--reason must not be empty.") }
    }

    func run() async throws {
        try await reportingFailures {
            let decision = SkipDecision(
                stream: StreamKey(app: app, environment: environment.value), position: position, reason: reason,
                decidedBy: NSUserName())
            try await database.withConnection(.projector) { try await decision.record(on: $0) }
            print("position \(position) of \(app), \(environment.value.rawValue) is skipped")
        }
    }
}
