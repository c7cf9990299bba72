import AppStore
import ArgumentParser
import Encoding
import EventLog
import Server
import StoreClient

struct Audit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Compare the notifications that Apple made on a day with the log; a server may keep running.",
        discussion: """
            Reads Apple's notification history of the day, stores what is missing, and records the comparison for view \
            analyst.apple_deliveries. A server does this by itself for each day. Requires the app's key in the apps file. \
            Prints the comparison of each environment as a JSON line. Exit status 1 if Apple delivered a notification that \
            was missing; 65 if the App Store refuses the question; 69 if the App Store or the database cannot be asked; \
            78 if the app has no key or the App Store rejects it.
            """)

    @OptionGroup var asking: StoreSessionFlags

    @Option(help: ArgumentHelp("Only this environment: production or sandbox. [both]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(help: ArgumentHelp("The day in UTC, for example 2026-11-22. [yesterday]", valueName: "date"))
    var day: String?

    func validate() throws {
        guard let day else { return }
        guard AuditDay(day) != nil else {
            throw ValidationError("--day is no date: expected one such as 2026-11-22.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let now = SystemClock.now()
            let day = day.flatMap { AuditDay($0) } ?? AuditDay(containing: now).previous
            guard day.end <= now else { throw SettingError(description: "\(day.text) has not ended in UTC") }
            let outcomes = try await StoreSession.with(asking) { try await audit(day, at: now, $0) }
            for case .audited(let audit) in outcomes {
                var writer = JSONWriter()
                audit.write(to: &writer)
                print(writer.text)
            }
            try report(outcomes)
        }
    }

    private func audit(
        _ day: AuditDay, at now: Instant, _ session: StoreSession
    ) async throws -> [DeliveryAuditor.Outcome] {
        let auditor = DeliveryAuditor(
            client: session.store.api, verifier: session.verifier, apps: [session.app],
            deliveries: DeliveryLog(pool: session.poller), appender: session.appender, clock: session.store.clock,
            logger: session.logger)
        var outcomes: [DeliveryAuditor.Outcome] = []
        for host in ReceiptHost.allCases where environment.map({ $0.value == host.environment }) ?? true {
            guard day.start > now.advanced(by: .zero - NotificationHistoryRequest.age(host)) else {
                // The sandbox forgets earlier.
                if environment == nil, host == .sandbox { continue }
                throw SettingError(description: "Apple no longer has the notifications of \(day.text)")
            }
            outcomes.append(try await auditor.audit(day, of: session.app, on: host))
        }
        return outcomes
    }

    private func report(_ outcomes: [DeliveryAuditor.Outcome]) throws {
        var hasLost = false
        for outcome in outcomes {
            switch outcome {
            case .audited(let audit): hasLost = hasLost || audit.count.lost > 0
            case .keyRejected: try StoreSession.reportRejectedKey()
            case .unavailable:
                printError("subledger: the App Store does not answer")
                throw ExitCode.unavailable
            case .refused:
                printError("subledger: the App Store refuses the question, or its answer is not understood")
                throw ExitCode.dataError
            }
        }
        if hasLost { throw ExitCode.failure }
    }
}
