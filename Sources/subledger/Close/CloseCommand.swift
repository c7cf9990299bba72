import ArgumentParser
import Encoding
import EventLog
import Foundation
import Readers
import Server
import Subscriptions

struct CloseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "close",
        abstract: "Close a month: keep its figures as they are now, signed, as an event of the log.",
        discussion: """
            Keeps payments, refunds, movements, and what was active and its monthly value at the end, by product, country \
            and currency, with the position of the log. View analyst.restatements shows what has changed since, and by \
            which events. Prints a JSON line for each app. Exit status 65 if the month is closed already, or not closed \
            with --reopen, or not over; 69 if the projections do not contain the whole log yet.
            """)

    @Argument(help: "The month, such as 2026-10, of UTC.")
    var month: String

    @Flag(help: "Open the month again, so that it can be closed with other figures. Requires --reason.")
    var reopen = false

    @Option(help: ArgumentHelp("The reason, which is recorded.", valueName: "text"))
    var reason: String?

    @Option(
        help: ArgumentHelp("The operator, who is recorded. [the user of the operating system]", valueName: "name"))
    var by: String?

    @Option(help: ArgumentHelp("Only this app.", valueName: "bundle-id"))
    var app: String?

    @Option(help: ArgumentHelp("The environment: \(StreamEnvironment.names). [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @OptionGroup var key: HeadKeyFlags
    @OptionGroup var database: DatabaseFlags

    private func closedAlready(_ stream: StreamKey, since time: Instant) -> CommandProblem {
        CommandProblem("\(month) of \(stream.app) is closed since \(time): open it again with --reopen first")
    }

    func validate() throws {
        guard month.wholeMatch(of: /[0-9]{4}-(0[1-9]|1[0-2])/) != nil else {
            throw ValidationError("expected a month such as 2026-10.")
        }
        if let reason { try WriteFlags.check(reason, "--reason") }
        if let by { try WriteFlags.check(by, "--by") }
        guard !reopen || reason != nil else { throw ValidationError("--reopen requires --reason.") }
    }

    func run() async throws {
        try await reportingFailures {
            let settings = Settings(flags: database.values.merging(key.values) { first, _ in first })
            let logger = try settings.logger()
            let now = SystemClock.now()
            guard let end = end, end <= now else {
                throw CommandProblem("\(month) is not over: close it on the first day of the next month, UTC")
            }
            try await Database.withExisting(settings, logger: logger) { database in
                try await database.check([.receiver, .reader])
                let signer = try settings.headKey()
                let all = try await database.withFigures { connection in
                    try await MonthFigures.all(
                        of: month, app: app, in: environment?.value ?? .production, on: connection)
                }
                guard !all.isEmpty else {
                    throw CommandProblem("the log has no events of this app and environment")
                }
                try await database.withAppender(logger: logger) { appender in
                    let closings = MonthClosings(
                        pool: database.pool(for: .links, logger: logger), appender: appender)
                    // All apps or none, unless another process closes the month meanwhile.
                    for figures in all where !reopen {
                        let stream = figures.stream
                        if let time = try await closings.closedAt(month, in: stream) {
                            throw closedAlready(stream, since: time)
                        }
                        guard figures.projected == figures.position else {
                            throw CommandProblem(
                                """
                                the projections of \(stream.app) contain \(figures.projected) of \(figures.position) \
                                events: repeat the command when they have caught up
                                """, .unavailable)
                        }
                    }
                    for figures in all {
                        let closing = try MonthClosing(
                            reopen ? .reopen : .close, month: month, position: figures.position, chain: figures.chain,
                            at: now, by: by ?? NSUserName(), reason: reason, figures: reopen ? [] : figures.figures
                        ).signed(by: signer)
                        try await state(closing, figures.stream, closings, now)
                    }
                }
            }
        }
    }

    /// The end of the month.
    private var end: Instant? {
        guard let year = Int(month.prefix(4)), let number = Int(month.suffix(2)) else { return nil }
        return Instant(
            year: number == 12 ? year + 1 : year, month: number == 12 ? 1 : number + 1, day: 1, hour: 0, minute: 0,
            second: 0)
    }

    private func state(
        _ closing: MonthClosing, _ stream: StreamKey, _ closings: MonthClosings, _ now: Instant
    ) async throws {
        switch try await closings.state(closing, in: stream, receivedAt: now) {
        case .stated(let position):
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("app", stream.app)
                writer.member("environment", stream.environment.rawValue)
                writer.member("eventPosition", position)
                writer.key("closing")
                closing.write(to: &writer)
            }
            print(writer.text)
        case .closedAlready(let time): throw closedAlready(stream, since: time)
        case .notClosed: throw CommandProblem("\(month) of \(stream.app) is not closed")
        }
    }
}
